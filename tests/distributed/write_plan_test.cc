// Who writes what. A thousand random cases beside Orbax itself are in
// tests/interop/test_sharding.py.
#include <cairn/orbax/sharding.h>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

// An array of float32 without values, all of whose devices are this process's.
ShardedArray described(Shape shape, Sharding sharding) {
  ShardedArray array{
      .shape = std::move(shape), .dtype = DType::kFloat32, .sharding = std::move(sharding)};
  for (const DeviceBox& held : device_boxes(array.sharding, array.shape)) {
    ArrayShard& shard = array.shards.emplace_back();
    shard.device_id = held.device_id;
    shard.box = held.box;
    shard.replica = held.replica;
  }
  return array;
}

NamedSharding sharded_2x2(PartitionSpec spec) {
  return {.mesh = make_mesh({2, 2}, {"x", "y"}), .spec = std::move(spec)};
}

Shape write_shape(Shape shape, const PartitionSpec& spec, const PieceOptions& options = {}) {
  return plan_pieces(described(std::move(shape), sharded_2x2(spec)), options).write_shape;
}

TEST(WritePlan, ReplicasShareTheFirstDimensionThatCanBeDivided) {
  EXPECT_EQ(write_shape({8, 8}, {}), (Shape{2, 8}));
  EXPECT_EQ(write_shape({8, 8}, {{"x"}}), (Shape{2, 8}));
  EXPECT_EQ(write_shape({8, 8}, {{}, {"y"}}), (Shape{4, 4}));
  EXPECT_EQ(write_shape({8, 8}, {{"x"}, {"y"}}), (Shape{4, 4}));
  EXPECT_EQ(write_shape({3, 8}, {}), (Shape{3, 2}));
  EXPECT_EQ(write_shape({3, 8}, {}, {.max_replicas = 2}), (Shape{3, 4}));
  EXPECT_EQ(write_shape({3, 8}, {}, {.max_replicas = 1}), (Shape{3, 8}));
  EXPECT_EQ(write_shape({3, 5}, {}), (Shape{3, 5}));
  EXPECT_EQ(write_shape({}, {}), (Shape{}));
  EXPECT_EQ(write_shape({0, 8}, {}), (Shape{0, 8}));
}

TEST(WritePlan, SmallPartsAreNotWorthIt) {
  EXPECT_EQ(write_shape({3, 8}, {}, {.min_slice_bytes = 24}), (Shape{3, 2}));
  EXPECT_EQ(write_shape({3, 8}, {}, {.min_slice_bytes = 25}), (Shape{3, 8}));
}

TEST(WritePlan, CountsReplicasWhoeverWrites) {
  const PieceOptions alone{.use_replica_parallel = false};
  for (const PieceOptions& options : {PieceOptions(), alone}) {
    EXPECT_EQ(plan_pieces(described({8, 8}, sharded_2x2({})), options).replicas, 4);
    EXPECT_EQ(plan_pieces(described({8, 8}, sharded_2x2({{"x"}})), options).replicas, 2);
    EXPECT_EQ(plan_pieces(described({8, 8}, sharded_2x2({{"x"}, {"y"}})), options).replicas, 1);
  }
}

TEST(WritePlan, EveryReplicaWritesItsPart) {
  const WritePlan plan = plan_pieces(described({8}, sharded_2x2({{"y"}})));
  EXPECT_EQ(plan.pieces, (std::vector<std::optional<Box>>{Box{{0}, {2}}, Box{{4}, {2}},
                                                          Box{{2}, {2}}, Box{{6}, {2}}}));
}

TEST(WritePlan, ReplicasBeyondTheLimitWriteNothing) {
  const WritePlan plan = plan_pieces(described({8}, sharded_2x2({})), {.max_replicas = 2});
  EXPECT_EQ(plan.pieces, (std::vector<std::optional<Box>>{Box{{0}, {4}}, Box{{4}, {4}},
                                                          std::nullopt, std::nullopt}));
}

TEST(WritePlan, OneReplicaWritesItWhole) {
  const ShardedArray array = described({8}, sharded_2x2({{"y"}}));
  const auto first = plan_pieces(array, {.use_replica_parallel = false}).pieces;
  EXPECT_EQ(first, (std::vector<std::optional<Box>>{Box{{0}, {4}}, Box{{4}, {4}}, std::nullopt,
                                                    std::nullopt}));
  const auto second = plan_pieces(array, {.replica_id = 1, .use_replica_parallel = false}).pieces;
  EXPECT_EQ(second, (std::vector<std::optional<Box>>{std::nullopt, std::nullopt, Box{{0}, {4}},
                                                     Box{{4}, {4}}}));
}

TEST(WritePlan, AProcessThatSavesForItselfWritesItsFirstReplica) {
  ShardedArray array = described({8}, sharded_2x2({{"y"}}));
  // devices 2 and 3, which hold replica 1
  array.shards.erase(array.shards.begin(), array.shards.begin() + 2);
  const WritePlan plan =
      plan_pieces(array, {.replica_id = std::nullopt, .use_replica_parallel = false});
  EXPECT_EQ(plan.pieces, (std::vector<std::optional<Box>>{Box{{0}, {4}}, Box{{4}, {4}}}));
  EXPECT_THAT([&] { plan_pieces(array, {.replica_id = std::nullopt}); },
              FailsWith(Code::kInvalidArgument, "each process saves separately"));
}

TEST(WritePlan, WriteShapeIsKnownToThoseWhoWriteNothing) {
  ShardedArray array = described({8}, sharded_2x2({}));
  array.shards.clear();
  EXPECT_EQ(plan_pieces(array).write_shape, (Shape{2}));
  EXPECT_TRUE(plan_pieces(array).pieces.empty());
}

TEST(WritePlan, UnevenPartsOfAGridAreWrittenWhole) {
  const ShardedArray array = described(
      {5}, ExplicitSharding{{{0, {{0}, {3}}}, {1, {{3}, {2}}}, {2, {{0}, {3}}}, {3, {{3}, {2}}}}});
  const WritePlan plan = plan_pieces(array);
  EXPECT_EQ(plan.write_shape, (Shape{3}));
  EXPECT_EQ(plan.pieces, (std::vector<std::optional<Box>>{Box{{0}, {3}}, Box{{3}, {2}},
                                                          std::nullopt, std::nullopt}));
}

TEST(WritePlan, ADeviceWithoutElementsWritesNothing) {
  const ShardedArray array =
      described({3}, ExplicitSharding{{{0, {{0}, {2}}}, {1, {{2}, {1}}}, {2, {{3}, {0}}}}});
  EXPECT_EQ(plan_pieces(array).pieces,
            (std::vector<std::optional<Box>>{Box{{0}, {2}}, Box{{2}, {1}}, std::nullopt}));
}

TEST(WritePlan, PartsWithUnequallyManyReplicasAreWrittenOnce) {
  const ShardedArray array =
      described({4}, ExplicitSharding{{{0, {{0}, {2}}}, {1, {{2}, {2}}}, {2, {{0}, {2}}}}});
  EXPECT_EQ(plan_pieces(array).pieces,
            (std::vector<std::optional<Box>>{Box{{0}, {2}}, Box{{2}, {2}}, std::nullopt}));
}

TEST(WritePlan, RefusesWhatIsNoGrid) {
  const auto fails = [](const ExplicitSharding& parts, const char* text) {
    EXPECT_THAT([&] { plan_pieces(described({6}, parts)); },
                FailsWith(Code::kInvalidArgument, text));
  };
  fails({{{0, {{0}, {4}}}, {1, {{2}, {4}}}}}, "[2:6] on device 1 is not one of a grid of (4,)");
  fails({{{0, {{0}, {2}}}, {1, {{2}, {4}}}}}, "[0:2] on device 0 is not one of a grid of (4,)");
  fails({{{0, {{0}, {2}}}, {1, {{4}, {2}}}}},
        "the devices hold 2 of the 3 parts (2,) of the array (6,)");
  fails({}, "the devices hold 0 of the 1 parts (0,)");
  fails({{{0, {{0}, {0}}}}}, "the devices hold 0 of the 1 parts (0,)");
}

TEST(WritePlan, RefusesShardsThatTheShardingDoesNotMake) {
  const auto fails = [](const std::function<void(std::vector<ArrayShard>&)>& damage,
                        const char* text) {
    ShardedArray array = described({8}, sharded_2x2({{"y"}}));
    damage(array.shards);
    EXPECT_THAT([&] { plan_pieces(array); }, FailsWith(Code::kInvalidArgument, text));
  };
  fails([](auto& shards) { shards[1].device_id = 0; }, "device 0 has two shards");
  fails([](auto& shards) { shards[1].device_id = 9; },
        "a shard is on device 9, which the sharding does not name");
  fails([](auto& shards) { shards[1].replica = 1; },
        "the shard on device 1 is replica 1 of [4:8], but the sharding has replica 0 of [4:8]");
  fails([](auto& shards) { shards[1].box = {{0}, {4}}; }, "is replica 0 of [0:4]");
}

}  // namespace
}  // namespace cairn
