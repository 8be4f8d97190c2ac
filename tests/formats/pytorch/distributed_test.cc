// distributed_test.cc -- Distributed Checkpoints that PyTorch wrote in two processes, any box of
// their tensors, and what is lost or damaged in them.
#include <cairn/base/json/json.h>
#include <cairn/formats/pytorch/distributed/nested_paths.h>
#include <cairn/formats/pytorch/distributed/saved_metadata.h>
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

using testing::FailsWith;
using testing::golden;
using ::testing::HasSubstr;
using testing::put_file;
using testing::read_whole;
using testing::TempDir;

const std::string kDistributedGolden = "pytorch/torch-2.13.0/";

pytorch::DistributedMetadata parsed_metadata(ByteView bytes) {
  return pytorch::parse_distributed_metadata(
      pickle::parse_pickle(Bytes(bytes.begin(), bytes.end())));
}

std::string copy_of(const TempDir& dir, const std::string& name) {
  std::filesystem::copy(golden(kDistributedGolden + name), dir / name,
                        std::filesystem::copy_options::recursive);
  return dir / name;
}

TEST(Distributed, ReadsWhatTwoProcessesWrote) {
  const Json expected = testing::golden_json(kDistributedGolden + "distributed.json");
  for (const auto& [name, rows] : *expected.as_object()) {
    const auto checkpoint = open(golden(kDistributedGolden + name));
    for (const Json& row : *rows.as_array()) {
      const std::string& leaf = testing::text_of(row, "name");
      SCOPED_TRACE(name + ": " + leaf);
      const std::size_t index = checkpoint->index(leaf);
      const TensorInfo& info = checkpoint->tensors()[index];
      EXPECT_EQ(info.dtype_name, testing::text_of(row, "dtype"));
      EXPECT_EQ(info.shape, testing::shape_of(row));
      EXPECT_EQ(read_whole(*checkpoint, index), testing::from_hex(testing::text_of(row, "hex")));
    }
    const VerifyReport report = checkpoint->verify({});
    EXPECT_FALSE(report.damaged());
    EXPECT_EQ(report.unprotected.empty(), name != "hf_parts");  // which have no checksums
  }
}

TEST(Distributed, NestsItsNames) {
  const Tree tree = open(golden(kDistributedGolden + "distributed"))->load();
  EXPECT_EQ(tree.at("step"), Tree(7));
  EXPECT_EQ(tree.at("name"), Tree("\xc3\xa4"));
  const auto& list = *tree.at("list").list();
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[1], Tree(5));
  EXPECT_EQ(list[2], Tree(Tree::Dict{{"lr", Tree(0.5)}, {"none", Tree()}}));
}

TEST(Distributed, ReadsAnyBox) {
  std::mt19937 random(9);
  for (const char* name : {"distributed", "distributed_alone", "distributed_zstd", "hf_parts"}) {
    const auto checkpoint = open(golden(kDistributedGolden + name));
    for (int round = 0; round < 200; ++round) {
      const std::size_t index = random() % checkpoint->tensors().size();
      const TensorInfo& info = checkpoint->tensors()[index];
      if (!info.is_array()) continue;
      testing::check_box(*checkpoint, index, testing::random_box(random, info.shape));
    }
  }
}

// A flip in an entry is noticed, or changes nothing that is read: headers say some things twice.
TEST(Distributed, NoticesFlippedBits) {
  const TempDir dir;
  const std::string folder = copy_of(dir, "distributed");
  const auto reference = open(golden(kDistributedGolden + "distributed"));
  const Bytes good = read_file(folder + "/__0_0.distcp");
  int flip = 0, noticed = 0;
  testing::for_each_bit_flip(good, [&](ByteView bad, const std::string& what) {
    if (++flip % (61 * testing::kFewer) != 0) return;
    put_file(folder + "/__0_0.distcp", bad);
    const auto checkpoint = open(folder);
    bool all = true;
    for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
      if (!checkpoint->tensors()[i].is_array()) continue;
      try {
        EXPECT_EQ(read_whole(*checkpoint, i), read_whole(*reference, i)) << what;
      } catch (const Error&) {
        all = false;
      }
    }
    EXPECT_EQ(all, !checkpoint->verify({}).damaged()) << what;
    noticed += all ? 0 : 1;
  });
  EXPECT_GT(noticed, 50 / testing::kFewer);
}

// The names of `.metadata` files, from the real writers.
const char* const kMetadataGolden[] = {
    "torch-2.13.0/distributed/.metadata", "torch-2.13.0/distributed_zstd/.metadata",
    "megatron-core-0.16.1/run/iter_0000100/.metadata", "megatron-core-0.15.0/flattened/.metadata"};

class DistributedMetadataDamage : public ::testing::TestWithParam<const char*> {};

TEST_P(DistributedMetadataDamage, IsRefused) {
  const Bytes good = read_file(golden("pytorch/" + std::string(GetParam())));
  testing::for_each_truncation(good, [&](ByteView bad, const std::string& what) {
    EXPECT_THROW(parsed_metadata(bad), Error) << what;
  });
  int flip = 0;
  testing::for_each_bit_flip(good, [&](ByteView bad, const std::string& /*what*/) {
    if (++flip % (5 * testing::kFewer) != 0) return;
    try {
      const auto parsed = parsed_metadata(bad);
      for (const pytorch::SavedValue& value : parsed.values)
        for (const pytorch::SavedChunk& chunk : value.chunks)
          for (std::size_t d = 0; d < value.shape.size(); ++d)
            EXPECT_LE(chunk.box.origin[d] + chunk.box.shape[d], value.shape[d]);
    } catch (const Error& e) {
      EXPECT_THAT(e.code(),
                  ::testing::AnyOf(Code::kDataLoss, Code::kUnimplemented, Code::kInvalidArgument));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Distributed, DistributedMetadataDamage,
                         ::testing::ValuesIn(kMetadataGolden));

TEST(Distributed, SaysWhatIsWrong) {
  const TempDir dir;
  const std::string folder = copy_of(dir, "distributed");
  std::filesystem::rename(folder + "/__1_0.distcp", folder + "/elsewhere");
  EXPECT_THAT(open(folder)->info().missing.front().text,
              HasSubstr("__1_0.distcp: the file is missing; the metadata names it for 10 values"));
  std::filesystem::rename(folder + "/elsewhere", folder + "/__1_0.distcp");
  std::filesystem::rename(folder + "/.metadata", folder + "/.metadata.tmp");
  EXPECT_THAT([&] { open(folder); },
              FailsWith(Code::kFailedPrecondition, "unfinished Distributed Checkpoint"));
  put_file(folder + "/.metadata", read_file(golden("pytorch/torch-2.13.0/objects.pt")));
  EXPECT_THAT([&] { open(folder); }, FailsWith(Code::kDataLoss, ".metadata"));
  const std::string alone = copy_of(dir, "distributed_alone");
  std::filesystem::remove(alone + "/__0.metadata");
  EXPECT_THAT(open(alone)->info().missing.front().text, HasSubstr("__0.metadata: the file is"));
}

// ---- nested names ----

// The paths of the leaves in the order of the tree, as JAX prints them.
std::vector<std::string> nested(const std::vector<pytorch::StatePath>& paths) {
  std::vector<std::string> names, found;
  for (const pytorch::StatePath& path : paths) {
    std::string name;
    for (const pytorch::PathStep& step : path) name += (name.empty() ? "" : ".") + step.text;
    names.push_back(name);
  }
  (void)pytorch::nest(
      paths, names,
      [&](std::size_t, const KeyPath& path) { return found.push_back(path_text(path)), Tree(1); },
      [&](const KeyPath& path) { return found.push_back(path_text(path) + " None"), Tree(); });
  return found;
}

pytorch::PathStep at(int index) { return {std::to_string(index), true}; }

TEST(NestedPaths, MakeDictsAndLists) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(nested({{{"b"}, {"x"}}, {{"a"}}, {{"b"}, {"c"}}}),
            (Names{"['b']['x']", "['b']['c']", "['a']"}));
  EXPECT_EQ(nested({{{"l"}, at(1)}, {{"l"}, at(0), {"k"}}}), (Names{"['l'][0]['k']", "['l'][1]"}));
  EXPECT_EQ(nested({{{"l"}, at(2)}, {{"l"}, at(0)}}),
            (Names{"['l'][0]", "['l'][1] None", "['l'][2]"}));
  EXPECT_EQ(nested({{{"l"}, at(1'000'000'000)}}), (Names{"['l']['1000000000']"}));
  // A value inside of another one, two at one place, and a key that is text and index.
  EXPECT_EQ(nested({{{"a"}}, {{"a"}, {"b"}}}), (Names{"['a']", "['a.b']"}));
  EXPECT_EQ(nested({{{"a"}, {"b"}}, {{"a"}}}), (Names{"['a.b']", "['a']"}));
  EXPECT_EQ(nested({{{"l"}, at(3)}, {{"l"}, {"3"}, {"x"}}}), (Names{"['l.3']", "['l.3.x']"}));
  EXPECT_EQ(nested({}), Names());
}

}  // namespace
}  // namespace cairn
