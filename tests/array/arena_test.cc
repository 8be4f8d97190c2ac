// arena_test.cc -- arrays in shared blocks: apart from each other, alive as long as one of them,
// large ones alone.
#include <cairn/array/arena.h>
#include <cairn/error.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>

#include <cstring>
#include <deque>
#include <map>
#include <random>

namespace cairn {
namespace {

TEST(ArrayArena, SmallArraysLieSideBySideAndApart) {
  const std::vector<Shape> shapes = {{3}, {}, {5, 7}, {64}, {1, 0, 2}, {4096}};
  ArrayArena arena;
  for (const Shape& shape : shapes)
    arena.expect(static_cast<std::uint64_t>(element_count(shape)) * 4);
  std::vector<Array> arrays;
  std::vector<MutableArrayView> views;
  for (const Shape& shape : shapes) {
    auto [array, view] = arena.allocate(DType::kInt32, 4, shape);
    arrays.push_back(std::move(array));
    views.push_back(std::move(view));
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_EQ(arrays[i].shape(), shapes[i]);
    EXPECT_EQ(views[i].shape, shapes[i]);
    EXPECT_TRUE(views[i].contiguous());
    EXPECT_EQ(arrays[i].bytes().size(), static_cast<std::size_t>(element_count(shapes[i])) * 4);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(views[i].data) % 64, 0U);
    if (!arrays[i].bytes().empty())
      std::memset(views[i].data, static_cast<int>(i + 1), arrays[i].bytes().size());
  }
  for (std::size_t i = 0; i < arrays.size(); ++i)
    for (const std::byte b : arrays[i].bytes()) ASSERT_EQ(b, std::byte(i + 1));
  EXPECT_LT(arrays[5].bytes().data() - arrays[0].bytes().data(), 4096);  // one block
}

// Allocates arrays of these sizes in their order. The bytes of each array are its number.
std::deque<Array> arrays_of(const std::vector<std::size_t>& sizes) {
  std::deque<Array> arrays;
  ArrayArena arena;
  for (const std::size_t size : sizes) arena.expect(size);
  for (const std::size_t size : sizes) {
    auto [array, view] = arena.allocate(DType::kUint8, 1, {static_cast<std::int64_t>(size)});
    if (size != 0) std::memset(view.data, static_cast<int>(arrays.size()), size);
    arrays.push_back(std::move(array));
  }
  return arrays;
}

TEST(ArrayArena, BlocksAreFilledAndOneArrayKeepsItsOwn) {
  constexpr std::size_t kSize = ArrayArena::kBlock / 9 - 128;  // with its padding
  std::deque<Array> arrays = arrays_of(std::vector<std::size_t>(21, kSize));
  std::map<const void*, std::size_t> blocks;
  for (const Array& array : arrays) ++blocks[array.owner().get()];
  EXPECT_EQ(blocks.size(), 3U);  // of 9, 9 and 3
  EXPECT_EQ(blocks[arrays[8].owner().get()], 9U);
  EXPECT_EQ(blocks[arrays[20].owner().get()], 3U);
  const Array last = arrays.back();
  arrays.clear();
  EXPECT_EQ(last.bytes()[0], std::byte{20});
  EXPECT_EQ(last.bytes()[kSize - 1], std::byte{20});
}

TEST(ArrayArena, ArraysOfAllSizesInAnyOrder) {
  std::mt19937 random(5);  // NOLINT: the same numbers each time
  std::vector<std::size_t> sizes = {0, 1, ArrayArena::kLarge - 1, ArrayArena::kLarge, 0, 64};
  while (sizes.size() < 200) sizes.push_back(random() % (ArrayArena::kLarge + 10));
  const std::deque<Array> arrays = arrays_of(sizes);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    ASSERT_EQ(arrays[i].bytes().size(), sizes[i]);
    for (std::size_t at = 0; at < sizes[i]; at += 61)
      ASSERT_EQ(arrays[i].bytes()[at], static_cast<std::byte>(i)) << i;
  }
}

TEST(ArrayArena, LargeAndUnexpectedArraysAreServedAllTheSame) {
  ArrayArena arena;
  const auto [large, large_view] =
      arena.allocate(DType::kUint8, 1, {static_cast<std::int64_t>(ArrayArena::kLarge)});
  EXPECT_EQ(large.bytes().data(), large_view.data);
  const auto [small, small_view] = arena.allocate(DType::kFloat64, 8, {2});
  small_view.data[15] = std::byte{7};
  EXPECT_EQ(small.bytes()[15], std::byte{7});
}

TEST(ArrayArena, SharedMemoryIsNotHandedOutForWritingAgain) {
  ArrayArena arena;
  arena.expect(8);
  auto [array, view] = arena.allocate(DType::kUint8, 1, {8});
  EXPECT_THAT([&array = array] { (void)array.mutable_view(); },
              testing::FailsWith(Code::kFailedPrecondition, "read-only"));
}

TEST(ArrayArena, RefusesWhatCannotBeAddressed) {
  ArrayArena arena;
  EXPECT_THAT([&] { arena.allocate(DType::kFloat64, 8, {INT64_MAX}); },
              testing::FailsWith(Code::kOutOfRange, "too large"));
  EXPECT_THAT([&] { arena.allocate(DType::kFloat64, 8, {-1}); },
              testing::FailsWith(Code::kInvalidArgument, "negative"));
}

}  // namespace
}  // namespace cairn
