// arena_test.cc -- arrays in shared blocks: apart from each other, alive as long as one of them,
// large ones alone.
#include <cairn/array/arena.h>
#include <cairn/error.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>

#include <cstring>
#include <deque>

namespace cairn {
namespace {

TEST(ArrayArena, SmallArraysLieSideBySideAndApart) {
  const std::vector<Shape> shapes = {{3}, {}, {5, 7}, {64}, {1, 0, 2}, {4096}};
  std::uint64_t expected = 0;
  for (const Shape& shape : shapes)
    expected += ArrayArena::shared_bytes(static_cast<std::uint64_t>(element_count(shape)) * 4);
  ArrayArena arena(expected);
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

TEST(ArrayArena, BlocksAreFilledAndOneArrayKeepsItsOwn) {
  constexpr std::size_t kSize = ArrayArena::kSmall;
  constexpr std::size_t kCount = 2 * ArrayArena::kBlock / kSize + 3;
  std::deque<Array> arrays;
  {
    ArrayArena arena(kCount * kSize);
    for (std::size_t i = 0; i < kCount; ++i) {
      auto [array, view] = arena.allocate(DType::kUint8, 1, {static_cast<std::int64_t>(kSize)});
      std::memset(view.data, static_cast<int>(i), kSize);
      arrays.push_back(std::move(array));
    }
  }
  const Array last = arrays.back();
  arrays.clear();
  EXPECT_EQ(last.bytes()[0], std::byte(kCount - 1));
  EXPECT_EQ(last.bytes()[kSize - 1], std::byte(kCount - 1));
}

TEST(ArrayArena, LargeAndUnexpectedArraysAreServedAllTheSame) {
  ArrayArena arena(0);
  const auto [large, large_view] =
      arena.allocate(DType::kUint8, 1, {static_cast<std::int64_t>(ArrayArena::kSmall) + 1});
  EXPECT_EQ(large.bytes().data(), large_view.data);
  const auto [small, small_view] = arena.allocate(DType::kFloat64, 8, {2});
  small_view.data[15] = std::byte{7};
  EXPECT_EQ(small.bytes()[15], std::byte{7});
}

TEST(ArrayArena, SharedMemoryIsNotHandedOutForWritingAgain) {
  ArrayArena arena(64);
  auto [array, view] = arena.allocate(DType::kUint8, 1, {8});
  EXPECT_THAT([&array = array] { (void)array.mutable_view(); },
              testing::FailsWith(Code::kFailedPrecondition, "read-only"));
}

TEST(ArrayArena, RefusesWhatCannotBeAddressed) {
  ArrayArena arena(0);
  EXPECT_THAT([&] { arena.allocate(DType::kFloat64, 8, {INT64_MAX}); },
              testing::FailsWith(Code::kOutOfRange, "too large"));
  EXPECT_THAT([&] { arena.allocate(DType::kFloat64, 8, {-1}); },
              testing::FailsWith(Code::kInvalidArgument, "negative"));
}

}  // namespace
}  // namespace cairn
