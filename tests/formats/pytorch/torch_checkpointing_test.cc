// torch_checkpointing_test.cc -- a folder that four processes wrote, any box of its tensors, which
// part of a tensor a rank has, and damaged metadata.
#include <cairn/base/json/json.h>
#include <cairn/formats/pytorch/torch_checkpointing/metadata.h>
#include <cairn/open.h>
#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "tests/formats/golden.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/random_box.h"
#include "tests/support/sanitizers.h"

namespace cairn {
namespace {

namespace checkpointing = pytorch::torch_checkpointing;
using checkpointing::Division;
using checkpointing::PlacementKind;
using testing::FailsWith;
using testing::golden;
using testing::read_whole;

const std::string kCheckpointingGolden = "pytorch/torch_checkpointing-0.1.1/";

TEST(TorchCheckpointing, ReadsWhatFourProcessesWrote) {
  const Json rows = testing::golden_json(kCheckpointingGolden + "torch_checkpointing.json");
  const auto checkpoint = open(golden(kCheckpointingGolden + "saved"));
  for (const Json& row : *rows.as_array()) {
    const std::string& leaf = testing::text_of(row, "name");
    SCOPED_TRACE(leaf);
    const std::size_t index = checkpoint->index(leaf);
    const TensorInfo& info = checkpoint->tensors()[index];
    EXPECT_EQ(info.dtype_name, testing::text_of(row, "dtype"));
    EXPECT_EQ(info.shape, testing::shape_of(row));
    EXPECT_EQ(read_whole(*checkpoint, index), testing::from_hex(testing::text_of(row, "hex")));
  }
  EXPECT_EQ(checkpoint->load().at("own_2.rank"), Tree(2));
  EXPECT_FALSE(checkpoint->verify({}).damaged());
}

TEST(TorchCheckpointing, ReadsAnyBox) {
  std::mt19937 random(9);
  const auto checkpoint = open(golden(kCheckpointingGolden + "saved"));
  for (int round = 0; round < 300; ++round) {
    const std::size_t index = random() % checkpoint->tensors().size();
    const TensorInfo& info = checkpoint->tensors()[index];
    if (!info.is_array()) continue;
    testing::check_box(*checkpoint, index, testing::random_box(random, info.shape));
  }
}

class TorchCheckpointingDamage : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchCheckpointingDamage, OfMetadataIsRefused) {
  const Bytes good = read_file(golden(kCheckpointingGolden + GetParam() + "/metadata.pkl"));
  const auto parse = [](ByteView bytes) {
    return checkpointing::parse_metadata(pickle::parse_pickle(Bytes(bytes.begin(), bytes.end())));
  };
  EXPECT_EQ(parse(good).world_size, 4U);
  testing::for_each_truncation(good, [&](ByteView bad, const std::string& what) {
    EXPECT_THROW(parse(bad), Error) << what;
  });
  int flip = 0;
  testing::for_each_bit_flip(good, [&](ByteView bad, const std::string& /*what*/) {
    if (++flip % (5 * testing::kFewer) != 0) return;
    try {
      for (const auto& item : parse(bad).items)
        for (const auto& tensor : item.tensors)
          for (const Division& division : tensor.divisions) {
            for (const std::uint64_t rank : division.mesh_ranks)
              (void)checkpointing::box_of_rank(division, rank);
            if (!division.parts) continue;
            for (const checkpointing::LocalPart& part : *division.parts)
              for (std::size_t d = 0; d < division.shape.size(); ++d)
                EXPECT_LE(part.box.origin[d] + part.box.shape[d], division.shape[d]);
          }
    } catch (const Error& e) {
      EXPECT_THAT(e.code(),
                  ::testing::AnyOf(Code::kDataLoss, Code::kUnimplemented, Code::kInvalidArgument));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(TorchCheckpointing, TorchCheckpointingDamage,
                         ::testing::Values("saved", "listed", "version_1"));

// Parts that each rank lists, and metadata of the first version: what four processes saved.
TEST(TorchCheckpointing, ReadsOtherMetadata) {
  const Json rows = testing::golden_json(kCheckpointingGolden + "other_metadata.json");
  for (const auto& [name, tensors] : *rows.as_object()) {
    const auto checkpoint = open(golden(kCheckpointingGolden + name));
    for (const Json& row : *tensors.as_array()) {
      const std::string& leaf = testing::text_of(row, "name");
      SCOPED_TRACE(name + ": " + leaf);
      const std::size_t index = checkpoint->index(leaf);
      EXPECT_EQ(checkpoint->tensors()[index].shape, testing::shape_of(row));
      EXPECT_EQ(read_whole(*checkpoint, index), testing::from_hex(testing::text_of(row, "hex")));
    }
    EXPECT_FALSE(checkpoint->verify({}).damaged());
  }
}

// The rows that ranks 0 to 3 have of a tensor with `rows` rows, as "begin+count".
std::vector<std::string> rows_of(std::int64_t rows, const Shape& mesh,
                                 const std::vector<PlacementKind>& kinds) {
  Division division{.shape = {rows, 2}, .dtype = "torch.float32", .mesh = mesh};
  for (std::uint64_t rank = 0; rank < 4; ++rank) division.mesh_ranks.push_back(rank);
  for (const PlacementKind kind : kinds) division.placements.push_back({kind, 0});
  std::vector<std::string> found;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    const Box box = checkpointing::box_of_rank(division, rank);
    found.push_back(std::to_string(box.origin[0]) + "+" + std::to_string(box.shape[0]));
  }
  return found;
}

TEST(TorchCheckpointing, DividesATensorAmongRanks) {
  using enum PlacementKind;
  using Rows = std::vector<std::string>;
  EXPECT_EQ(rows_of(7, {4}, {kShard}), (Rows{"0+2", "2+2", "4+2", "6+1"}));
  EXPECT_EQ(rows_of(5, {4}, {kShard}), (Rows{"0+2", "2+2", "4+1", "5+0"}));
  EXPECT_EQ(rows_of(0, {4}, {kShard}), (Rows{"0+0", "0+0", "0+0", "0+0"}));
  EXPECT_EQ(rows_of(7, {2, 2}, {kShard, kShard}), (Rows{"0+2", "2+2", "4+2", "6+1"}));
  EXPECT_EQ(rows_of(7, {2, 2}, {kReplicate, kShard}), (Rows{"0+4", "4+3", "0+4", "4+3"}));
  EXPECT_EQ(rows_of(8, {2, 2}, {kStridedShard, kShard}), (Rows{"0+2", "4+2", "2+2", "6+2"}));
  Division division{.shape = {2}, .dtype = "torch.float32", .mesh = {1}, .mesh_ranks = {3}};
  division.placements.resize(1);
  EXPECT_EQ(checkpointing::box_of_rank(division, 3).shape, Shape{2});
  EXPECT_THAT([&] { checkpointing::box_of_rank(division, 0); },
              FailsWith(Code::kDataLoss, "rank 0 is not in its mesh"));
}

}  // namespace
}  // namespace cairn
