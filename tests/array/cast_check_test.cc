// cast_check_test.cc -- which elements a type cannot hold, against arithmetic on single numbers.
#include <cairn/array/box.h>
#include <cairn/array/cast_all.h>
#include <cairn/array/cast_check.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

namespace cairn {
namespace {

template <class T>
std::size_t find(DType to, const std::vector<T>& values) {
  return CastCheck(dtype_of<T>(), to)
      .find(reinterpret_cast<const std::byte*>(values.data()), values.size());
}

TEST(CastCheck, PairsThatCannotLose) {
  for (const auto& [from, to] :
       std::vector<std::pair<DType, DType>>{{DType::kInt8, DType::kInt16},
                                            {DType::kUint8, DType::kInt16},
                                            {DType::kInt16, DType::kFloat32},
                                            {DType::kInt8, DType::kBfloat16},
                                            {DType::kInt32, DType::kFloat64},
                                            {DType::kUint4, DType::kFloat8E4m3fn},
                                            {DType::kInt4, DType::kInt8},
                                            {DType::kBool, DType::kUint2},
                                            {DType::kBool, DType::kComplex64},
                                            {DType::kFloat64, DType::kFloat4E2m1fn},
                                            {DType::kFloat32, DType::kComplex64},
                                            {DType::kComplex128, DType::kComplex64},
                                            {DType::kInt64, DType::kInt64}})
    EXPECT_FALSE(CastCheck(from, to).can_lose()) << dtype_name(from) << " " << dtype_name(to);
  for (const auto& [from, to] :
       std::vector<std::pair<DType, DType>>{{DType::kInt8, DType::kUint8},
                                            {DType::kInt16, DType::kBfloat16},
                                            {DType::kInt64, DType::kFloat64},
                                            {DType::kUint8, DType::kFloat8E4m3fn},
                                            {DType::kBool, DType::kFloat8E8m0fnu},
                                            {DType::kFloat4E2m1fn, DType::kInt8},
                                            {DType::kUint8, DType::kBool},
                                            {DType::kComplex64, DType::kFloat64}})
    EXPECT_TRUE(CastCheck(from, to).can_lose()) << dtype_name(from) << " " << dtype_name(to);
}

TEST(CastCheck, LimitsOfIntegersAndFloats) {
  using I64 = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(find<std::int64_t>(DType::kFloat32, {16777216, -16777216, 1 << 25, 16777217}), 3U);
  EXPECT_EQ(find<std::int64_t>(DType::kFloat64, {I64::min(), I64::max()}), 1U);
  EXPECT_EQ(find<std::int64_t>(DType::kFloat16, {65504, I64::min()}), 1U);  // it becomes -inf
  EXPECT_EQ(find<std::int32_t>(DType::kFloat8E5m2, {57344, std::numeric_limits<int>::min()}), 1U);
  EXPECT_EQ(find<std::uint64_t>(DType::kFloat64, {1ULL << 63U, ~0ULL}), 1U);
  EXPECT_EQ(find<std::int8_t>(DType::kUint64, {0, 127, -1}), 2U);
  EXPECT_EQ(find<double>(DType::kUint64, {0x1p63, 0x1.fffffffffffffp63, 0x1p64}), 2U);
  EXPECT_EQ(find<double>(DType::kInt64, {-0x1p63, -0.0, 0x1p63}), 2U);
  EXPECT_EQ(find<float>(DType::kInt32, {-0x1p31F, 3, NAN}), 2U);
  EXPECT_EQ(find<float>(DType::kUint8, {255, 0.5F}), 1U);
  EXPECT_EQ(find<float>(DType::kInt8, {-128, -INFINITY}), 1U);
  EXPECT_EQ(find<std::int64_t>(DType::kBool, {0}), 0U);
  EXPECT_EQ(find<std::int64_t>(DType::kBool, {}), 0U);
  using C = std::complex<float>;
  EXPECT_EQ(find<C>(DType::kFloat64, {C(1, 0), C(2, -0.0F), C(0, NAN)}), 2U);
  EXPECT_EQ(find<C>(DType::kInt8, {C(1, 0), C(200, 0), C(0, 1)}), 1U);
}

TEST(CastCheck, FindsTheFirstInCOrderOfAnyStrides) {
  std::vector<std::int32_t> values(6 * 7 * 5, 1);
  ArrayView view = make_view(std::as_bytes(std::span(values)), DType::kInt32, {6, 7, 5});
  EXPECT_EQ(find_lost(view, DType::kInt8), std::nullopt);
  values[2 * 35 + 3 * 5 + 4] = 1000;
  values[4 * 35] = 2000;
  EXPECT_THAT(find_lost(view, DType::kInt8), ::testing::Optional(::testing::ElementsAre(2, 3, 4)));
  std::swap(view.shape[0], view.shape[2]);
  std::swap(view.strides[0], view.strides[2]);
  EXPECT_THAT(find_lost(view, DType::kInt8), ::testing::Optional(::testing::ElementsAre(0, 0, 4)));
  view.shape[1] = 0;
  EXPECT_EQ(find_lost(view, DType::kInt8), std::nullopt);
  const std::int32_t one = 300;
  const ArrayView scalar = make_view(std::as_bytes(std::span(&one, 1)), DType::kInt32, {});
  EXPECT_THAT(find_lost(scalar, DType::kInt8), ::testing::Optional(::testing::IsEmpty()));
}

TEST(CastCheck, ParallelConversionsReportTheFirst) {
  Executor executor(3);
  std::vector<std::int64_t> large(1 << 20);
  large[700'001] = 1 << 20;
  large[900'000] = 1 << 21;
  std::vector<std::int16_t> out(large.size());
  const std::int64_t extent = 1 << 10;
  const Shape shape{extent, extent};
  const Cast cast{.from = make_view(std::as_bytes(std::span(large)), DType::kInt64, shape),
                  .to = make_view(std::as_writable_bytes(std::span(out)), DType::kInt16, shape),
                  .checked = true};
  const auto lost = cast_all(std::vector<Cast>{cast}, executor);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->cast, 0U);
  EXPECT_THAT(lost->index, ::testing::ElementsAre(700'001 / extent, 700'001 % extent));
}

TEST(CastCheck, TextOfElements) {
  const auto text = []<class T>(T value) {
    return element_text(dtype_of<T>(), reinterpret_cast<const std::byte*>(&value));
  };
  EXPECT_EQ(text(std::int8_t{-5}), "-5");
  EXPECT_EQ(text(~std::uint64_t{0}), "18446744073709551615");
  EXPECT_EQ(text(0.1F), "0.1");
  EXPECT_EQ(text(std::complex<double>(1, -2)), "(1-2j)");
  EXPECT_EQ(text(true), "True");
}

}  // namespace
}  // namespace cairn
