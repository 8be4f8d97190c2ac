// Arrays in parts: spread over devices without a copy, copied from, gathered.
#include <cairn/array/box.h>
#include <cairn/orbax/sharding.h>

#include <atomic>
#include <cstring>
#include <numeric>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

// 0, 1, 2, ... as int32.
Array counting(Shape shape) {
  Array array = Array::allocate(DType::kInt32, std::move(shape));
  auto* values = reinterpret_cast<std::int32_t*>(array.mutable_view().data);
  std::iota(values, values + element_count(array.shape()), 0);
  return array;
}

std::vector<std::int32_t> values_of(const Array& array) {
  std::vector<std::int32_t> values(array.bytes().size() / sizeof(std::int32_t));
  if (!values.empty()) std::memcpy(values.data(), array.bytes().data(), array.bytes().size());
  return values;
}

std::vector<std::int32_t> copied(const ShardedArray& array, const Box& box) {
  Array out = Array::allocate(array.dtype, box.shape);
  copy_box(array, box, out.mutable_view());
  return values_of(out);
}

NamedSharding on_2x2(PartitionSpec spec) {
  return {.mesh = make_mesh({2, 2}, {"x", "y"}), .spec = std::move(spec)};
}

TEST(ShardedArray, ShardsAreViewsIntoTheHostArray) {
  const Array host = counting({4, 6});
  const ShardedArray sharded = ShardedArray::from_array(host, on_2x2({{"x"}, {"y"}}));
  ASSERT_EQ(sharded.shards.size(), 4U);
  const ArrayShard& last = sharded.shards[3];
  EXPECT_EQ(last.device_id, 3);
  EXPECT_EQ(last.box, (Box{{2, 3}, {2, 3}}));
  const auto& memory = std::get<HostMemory>(last.source);
  EXPECT_EQ(memory.view.data, host.bytes().data() + (2 * 6 + 3) * 4);
  EXPECT_EQ(memory.view.strides, (std::vector<std::int64_t>{24, 4}));
}

TEST(ShardedArray, KeepsTheHostArrayAlive) {
  std::optional<Array> host = counting({4});
  const ShardedArray sharded = ShardedArray::from_array(*host, on_2x2({{"x"}}));
  host.reset();
  EXPECT_EQ(values_of(gather_shards(sharded)), (std::vector<std::int32_t>{0, 1, 2, 3}));
}

TEST(ShardedArray, GathersFromParts) {
  const Array host = counting({4, 6});
  for (const PartitionSpec& spec :
       {PartitionSpec{{"x"}, {"y"}}, PartitionSpec{{}, {"y"}}, PartitionSpec{{"y", "x"}}})
    EXPECT_EQ(values_of(gather_shards(ShardedArray::from_array(host, on_2x2(spec)))),
              values_of(host));
}

TEST(ShardedArray, GathersWithoutACopyWhereOneShardIsAllOfIt) {
  const Array host = counting({4, 6});
  EXPECT_EQ(gather_shards(ShardedArray::from_array(host, on_2x2({}))).bytes().data(),
            host.bytes().data());
  ShardedArray borrowed = ShardedArray::from_array(host, on_2x2({}));
  for (ArrayShard& shard : borrowed.shards) std::get<HostMemory>(shard.source).owner.reset();
  EXPECT_NE(gather_shards(borrowed).bytes().data(), host.bytes().data())
      << "nobody keeps the borrowed memory alive";
}

TEST(ShardedArray, CopiesABoxAcrossShards) {
  const ShardedArray sharded = ShardedArray::from_array(counting({4, 6}), on_2x2({{"x"}, {"y"}}));
  EXPECT_EQ(copied(sharded, {{1, 2}, {2, 2}}), (std::vector<std::int32_t>{8, 9, 14, 15}));
  EXPECT_EQ(copied(sharded, {{0, 5}, {4, 1}}), (std::vector<std::int32_t>{5, 11, 17, 23}));
  EXPECT_EQ(copied(sharded, {{4, 6}, {0, 0}}), (std::vector<std::int32_t>{}));
}

TEST(ShardedArray, OfRankZeroAndOfNothing) {
  EXPECT_EQ(values_of(gather_shards(ShardedArray::from_array(counting({}), on_2x2({})))),
            (std::vector<std::int32_t>{0}));
  EXPECT_EQ(gather_shards(ShardedArray::from_array(counting({0, 4}), on_2x2({{"x"}}))).shape(),
            (Shape{0, 4}));
}

TEST(ShardedArray, NamesWhatAProcessDoesNotHold) {
  const std::int64_t mine[] = {0, 1};
  const ShardedArray sharded =
      ShardedArray::from_array(counting({4, 6}), on_2x2({{"x"}, {"y"}}), mine);
  EXPECT_EQ(sharded.shards.size(), 2U);
  EXPECT_EQ(copied(sharded, {{0, 0}, {1, 6}}), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_THAT(
      [&] { gather_shards(sharded); },
      FailsWith(Code::kFailedPrecondition, "[2:4, 0:6] of the array (4, 6) is not in a shard"));
  EXPECT_THAT(
      [&] {
        copied(sharded, {{1, 0}, {2, 2}});
      },
      FailsWith(Code::kFailedPrecondition, "[2:3, 0:2] of the array"));
}

TEST(ShardedArray, AnyReplicaWillDo) {
  const std::int64_t mine[] = {3, 1};
  const ShardedArray sharded = ShardedArray::from_array(counting({4}), on_2x2({{"y"}}), mine);
  EXPECT_THAT([&] { gather_shards(sharded); },
              FailsWith(Code::kFailedPrecondition, "[0:2] of the array"));
  EXPECT_EQ(copied(sharded, {{2}, {2}}), (std::vector<std::int32_t>{2, 3}));
}

TEST(ShardedArray, OverlappingPartsAreCopiedOnce) {
  const Array host = counting({6});
  std::int64_t elements = 0;
  ShardedArray sharded =
      ShardedArray::from_array(host, ExplicitSharding{{{0, {{0}, {4}}}, {1, {{2}, {4}}}}});
  for (ArrayShard& shard : sharded.shards) {
    const auto memory = std::get<HostMemory>(shard.source);
    shard.source = ShardCopy([memory, &elements](const Box& part, const MutableArrayView& out) {
      elements += element_count(part.shape);
      copy_elements(subview(memory.view, part), out);
    });
  }
  EXPECT_EQ(values_of(gather_shards(sharded)), values_of(host));
  EXPECT_EQ(elements, 6);
}

TEST(ShardedArray, ADeviceIsAskedForPartsInItsOwnCoordinates) {
  ShardedArray sharded = ShardedArray::from_array(counting({4, 6}), on_2x2({{"x"}, {"y"}}));
  std::vector<Box> asked;
  sharded.shards[3].source = ShardCopy([&](const Box& part, const MutableArrayView& out) {
    asked.push_back(part);
    EXPECT_EQ(out.shape, part.shape);
    for (std::int64_t i = 0; i < part.shape[0]; ++i)
      for (std::int64_t j = 0; j < part.shape[1]; ++j)
        std::memset(out.data + i * out.strides[0] + j * out.strides[1], 1, 4);
  });
  EXPECT_EQ(copied(sharded, {{1, 2}, {2, 2}}), (std::vector<std::int32_t>{8, 9, 14, 0x01010101}));
  EXPECT_EQ(asked, (std::vector<Box>{{{0, 0}, {1, 1}}}));
}

TEST(ShardedArray, AFailingDeviceIsNamed) {
  ShardedArray sharded = ShardedArray::from_array(counting({4}), on_2x2({{"x", "y"}}));
  sharded.shards[2].source = ShardCopy([](const Box&, const MutableArrayView&) {
    throw Error(Code::kUnavailable, "the bus is gone");
  });
  EXPECT_THAT([&] { gather_shards(sharded); },
              FailsWith(Code::kUnavailable, "the shard on device 2: the bus is gone"));
}

TEST(ShardedArray, RefusesWhatDoesNotFit) {
  ShardedArray sharded = ShardedArray::from_array(counting({4}), on_2x2({{"x"}}));
  Array wrong_shape = Array::allocate(DType::kInt32, {3});
  EXPECT_THAT(
      [&] {
        copy_box(sharded, {{0}, {4}}, wrong_shape.mutable_view());
      },
      FailsWith(Code::kInvalidArgument, "does not fit (3,)"));
  Array wrong_type = Array::allocate(DType::kFloat32, {4});
  EXPECT_THAT(
      [&] {
        copy_box(sharded, {{0}, {4}}, wrong_type.mutable_view());
      },
      FailsWith(Code::kInvalidArgument, "of int32 does not fit"));
  EXPECT_THAT([&] { copied(sharded, {{2}, {3}}); }, FailsWith(Code::kOutOfRange, "[2:5]"));
  sharded.shards[0].source = HostMemory{.view = wrong_shape.view(), .owner = nullptr};
  EXPECT_THAT(
      [&] { gather_shards(sharded); },
      FailsWith(Code::kInvalidArgument, "device 0: memory shape (3,) does not match box [0:2]"));
  sharded.shards[0].source =
      HostMemory{.view = subview(wrong_type.view(), {{0}, {2}}), .owner = nullptr};
  EXPECT_THAT([&] { gather_shards(sharded); },
              FailsWith(Code::kInvalidArgument,
                        "device 0: its memory holds float32, but the array is int32"));
  EXPECT_THAT([] { ShardedArray::from_array(Array::allocate(DType::kOpaque, 8, {4}), on_2x2({})); },
              FailsWith(Code::kInvalidArgument));
  EXPECT_THAT([] { ShardedArray::from_array(counting({3}), on_2x2({{"x"}})); },
              FailsWith(Code::kInvalidArgument, "3 elements"));
}

TEST(ShardedArray, ADescriptionHasNothingToCopy) {
  ShardedArray sharded = ShardedArray::from_array(counting({4}), on_2x2({}));
  for (ArrayShard& shard : sharded.shards) shard.source = std::monostate();
  EXPECT_THAT([&] { gather_shards(sharded); },
              FailsWith(Code::kFailedPrecondition, "[0:4] of the array"));
}

}  // namespace
}  // namespace cairn
