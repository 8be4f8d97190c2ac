// deepspeed_test.cc -- checkpoints that two processes of DeepSpeed wrote, any box of their
// parameters, what is damaged in them, and how parameters are divided among ranks.
#include <cairn/base/json/json.h>
#include <cairn/formats/pytorch/deepspeed/folder.h>
#include <cairn/formats/pytorch/deepspeed/partitions.h>
#include <cairn/open.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/formats/golden.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/random_box.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace deepspeed = pytorch::deepspeed;
using deepspeed::Fragment;
using testing::FailsWith;
using testing::golden;
using testing::put_file;
using testing::read_whole;
using testing::TempDir;

const std::string kDeepspeedGolden = "pytorch/deepspeed-0.19.8/";

TEST(Deepspeed, ReadsWhatTwoProcessesWrote) {
  const Json expected = testing::golden_json(kDeepspeedGolden + "deepspeed.json");
  for (const auto& [name, rows] : *expected.as_object()) {
    const auto checkpoint = open(golden(kDeepspeedGolden + name));
    for (const Json& row : *rows.as_array()) {
      const std::string& leaf = testing::text_of(row, "name");
      SCOPED_TRACE(name + ": " + leaf);
      const std::size_t index = checkpoint->index(leaf);
      const TensorInfo& info = checkpoint->tensors()[index];
      EXPECT_EQ(info.dtype_name, testing::text_of(row, "dtype"));
      EXPECT_EQ(info.shape, testing::shape_of(row));
      EXPECT_EQ(read_whole(*checkpoint, index), testing::from_hex(testing::text_of(row, "hex")));
    }
    EXPECT_EQ(checkpoint->load().at("model_states.epoch"), Tree(1));
    const VerifyReport report = checkpoint->verify({});
    EXPECT_FALSE(report.damaged());
    EXPECT_THAT(report.unprotected, ::testing::IsEmpty());
  }
  EXPECT_EQ(open(golden(kDeepspeedGolden))->info().path, golden(kDeepspeedGolden + "zero3"));
}

TEST(Deepspeed, ReadsAnyBox) {
  std::mt19937 random(9);
  for (const char* name : {"zero2", "zero3", "universal"}) {
    const auto checkpoint = open(golden(kDeepspeedGolden + name));
    for (int round = 0; round < 200; ++round) {
      const std::size_t index = random() % checkpoint->tensors().size();
      const TensorInfo& info = checkpoint->tensors()[index];
      if (!info.is_array()) continue;
      testing::check_box(*checkpoint, index, testing::random_box(random, info.shape));
    }
  }
}

// A flip is noticed, or changes nothing that is read: headers say some things twice, and not all
// values of a rank are shown.
TEST(Deepspeed, NoticesFlippedBits) {
  const TempDir dir;
  const std::string file = "/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt";
  for (const std::string name : {"zero2", "zero3"}) {
    const std::string folder = dir / name;
    std::filesystem::copy(golden(kDeepspeedGolden + name), folder,
                          std::filesystem::copy_options::recursive);
    const auto reference = open(golden(kDeepspeedGolden + name));
    const Bytes good = read_file(folder + file);
    int flip = 0, noticed = 0;
    testing::for_each_bit_flip(good, [&](ByteView bad, const std::string& what) {
      if (++flip % (151 * testing::kFewer) != 0) return;
      put_file(folder + file, bad);
      try {
        const auto checkpoint = open(folder);
        for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
          if (!checkpoint->tensors()[i].is_array()) continue;
          EXPECT_EQ(read_whole(*checkpoint, i), read_whole(*reference, i)) << what;
        }
      } catch (const Error&) {
        ++noticed;
      }
    });
    EXPECT_GT(noticed, 20 / testing::kFewer);
  }
}

TEST(Deepspeed, SortsFilesByTheNumbersOfRanks) {
  deepspeed::FolderNames names = {"mp_rank_00_model_states.pt"};
  for (int rank = 0; rank < 12; ++rank)
    names.insert("zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_optim_states.pt");
  const deepspeed::StateFiles files = deepspeed::list_state_files("f", names);
  ASSERT_EQ(files.optims.size(), 12U);
  EXPECT_EQ(files.optims[2], "zero_pp_rank_2_mp_rank_00_optim_states.pt");
  EXPECT_EQ(files.optims[11], "zero_pp_rank_11_mp_rank_00_optim_states.pt");
  names.erase("zero_pp_rank_9_mp_rank_00_optim_states.pt");
  EXPECT_THAT([&] { deepspeed::list_state_files("f", names); },
              FailsWith(Code::kDataLoss,
                        "f/zero_pp_rank_9_mp_rank_00_optim_states.pt: the file is missing"));
  names.insert("zero_pp_rank_09_mp_rank_00_optim_states.pt");
  EXPECT_THAT([&] { deepspeed::list_state_files("f", names); },
              FailsWith(Code::kUnimplemented, "zero_pp_rank_09_mp_rank_00_optim_states.pt"));
}

// ---- partitions ----

std::vector<deepspeed::Parameter> parameters(const std::vector<Shape>& shapes) {
  std::vector<deepspeed::Parameter> found;
  for (const Shape& shape : shapes) found.push_back({"p" + std::to_string(found.size()), shape});
  return found;
}

TEST(DeepspeedPartitions, CutAGroupAmongRanks) {
  const std::vector<std::vector<deepspeed::Parameter>> groups = {
      parameters({{2, 3}, {}, {0}, {4}})};
  const auto found = deepspeed::partition_groups(groups, {}, {{5}, {5}, {2}});
  using Fragments = std::vector<Fragment>;
  EXPECT_EQ(found[0].fragments, (Fragments{{0, 0, 0, 0, 5}, {1, 0, 0, 5, 1}}));
  EXPECT_EQ(found[1].fragments, (Fragments{{1, 0, 1, 0, 1}}));
  EXPECT_EQ(found[2].fragments, Fragments());
  EXPECT_EQ(found[3].fragments, (Fragments{{1, 0, 2, 0, 3}, {2, 0, 0, 3, 1}}));
  const auto padded = deepspeed::partition_groups(groups, {{2, 0, 0, 1}}, {{7}, {7}, {0}});
  EXPECT_EQ(padded[1].fragments, (Fragments{{1, 0, 1, 0, 1}}));
}

TEST(DeepspeedPartitions, CutEachParameterAmongRanks) {
  const std::vector<std::vector<deepspeed::Parameter>> groups = {parameters({{5}, {}}),
                                                                 parameters({{2, 2}})};
  // The vectors of a rank hold 3, 1 and 2 elements, in two pieces and an empty one.
  const auto found = deepspeed::partition_parameters(groups, {{2, 0, 4}, {2, 0, 4}});
  using Fragments = std::vector<Fragment>;
  EXPECT_EQ(found[0].fragments, (Fragments{{0, 0, 0, 0, 2}, {0, 2, 0, 2, 1}, {1, 0, 0, 3, 2}}));
  EXPECT_EQ(found[1].fragments, (Fragments{{0, 2, 1, 0, 1}}));
  EXPECT_EQ(found[2].fragments, (Fragments{{0, 2, 2, 0, 2}, {1, 2, 2, 2, 2}}));
}

TEST(DeepspeedPartitions, RefuseLengthsThatDoNotFit) {
  const std::vector<std::vector<deepspeed::Parameter>> groups = {parameters({{8}})};
  const auto fails = [](const char* why) { return FailsWith(Code::kDataLoss, why); };
  EXPECT_THAT([&] { deepspeed::partition_groups(groups, {}, {{4}, {3}}); }, fails("have 8 elem"));
  EXPECT_THAT([&] { deepspeed::partition_groups(groups, {}, {{4}, {5}}); }, fails("ranks 9"));
  EXPECT_THAT([&] { deepspeed::partition_groups(groups, {}, {{8}, {}}); }, fails("0 parts of a"));
  EXPECT_THAT([&] { deepspeed::partition_groups(groups, {{1, 2}}, {{8}}); }, fails("2 paddings"));
  EXPECT_THAT([&] { deepspeed::partition_parameters(groups, {{4}, {5}}); }, fails("other lengths"));
  EXPECT_THAT(
      [&] {
        deepspeed::partition_parameters(groups, {{3}, {3}});
      },
      fails("behind the end"));
  EXPECT_THAT([&] { deepspeed::partition_parameters(groups, {{5}, {5}}); }, fails("are longer"));
  EXPECT_THAT([&] { deepspeed::partition_parameters(groups, {{}, {}}); }, fails("behind the end"));
  const std::vector<std::vector<deepspeed::Parameter>> huge = {
      parameters({{std::int64_t{1} << 60}})};
  EXPECT_THAT([&] { deepspeed::partition_parameters(huge, {{8}, {8}}); }, fails("behind the end"));
  // A small file of parameters in many parts.
  const std::vector<std::vector<deepspeed::Parameter>> many = {
      parameters(std::vector<Shape>(500, {1000}))};
  EXPECT_THAT([&] { deepspeed::partition_parameters(many, deepspeed::Lengths(1000, {500})); },
              FailsWith(Code::kUnimplemented, "too many parts"));
}

}  // namespace
}  // namespace cairn
