// Statistics of tensors, against plain loops over the values.
#include <cairn/inspect.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/matchers.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::make_array;
using testing::MemoryCheckpoint;

constexpr std::uint64_t kPlenty = 1U << 30U;

TensorStats stats_of(const Array& array, std::uint64_t memory = kPlenty) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("a", array);
  return tensor_stats(checkpoint, 0, {.memory = memory});
}

TEST(Stats, CountsSpecialValuesAndUsesTheFiniteOnes) {
  const float inf = std::numeric_limits<float>::infinity();
  const TensorStats s =
      stats_of(make_array<float>(DType::kFloat32, {8}, {NAN, inf, -inf, 0, -0.0F, 2, 4, -6}));
  EXPECT_EQ(s.count, 8U);
  EXPECT_EQ(s.nans, 1U);
  EXPECT_EQ(s.infs, 2U);
  EXPECT_EQ(s.zeros, 2U);
  EXPECT_EQ(s.min, -6);
  EXPECT_EQ(s.max, 4);
  EXPECT_DOUBLE_EQ(*s.mean, 0);
  EXPECT_DOUBLE_EQ(*s.stddev, std::sqrt((4.0 + 16 + 36) / 5));
  std::vector<std::uint64_t> bins(16, 0);
  bins[0] = 1;   // -6
  bins[9] = 2;   // zeros
  bins[12] = 1;  // 2
  bins[15] = 1;  // 4
  EXPECT_EQ(s.histogram, bins);
}

TEST(Stats, NothingFiniteMeansNoMoments) {
  for (const Array& array : {make_array<float>(DType::kFloat32, {2}, {NAN, NAN}),
                             make_array<float>(DType::kFloat32, {0}, {})}) {
    const TensorStats s = stats_of(array);
    EXPECT_FALSE(s.min || s.max || s.mean || s.stddev);
    EXPECT_TRUE(s.histogram.empty());
  }
}

TEST(Stats, DoNotDependOnTheMemoryGiven) {
  std::vector<float> values(100'003);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(i)) * 3 + 100);
  const Array array = make_array(DType::kFloat32, {100'003}, values);
  const TensorStats whole = stats_of(array);
  double mean = 0;
  for (const float v : values) mean += v;
  mean /= static_cast<double>(values.size());
  double variance = 0;
  for (const float v : values) variance += (v - mean) * (v - mean);
  EXPECT_NEAR(*whole.mean, mean, 1e-9);
  EXPECT_NEAR(*whole.stddev, std::sqrt(variance / static_cast<double>(values.size())), 1e-9);
  const TensorStats pieces = stats_of(array, 50'000);
  EXPECT_NEAR(*pieces.mean, mean, 1e-9);
  EXPECT_NEAR(*pieces.stddev, *whole.stddev, 1e-9);
  EXPECT_EQ(pieces.histogram, whole.histogram);
  EXPECT_EQ(std::accumulate(whole.histogram.begin(), whole.histogram.end(), std::uint64_t{0}),
            values.size());
}

TEST(Stats, EveryKindOfElement) {
  const TensorStats bools = stats_of(make_array<std::uint8_t>(DType::kBool, {3}, {1, 0, 1}));
  EXPECT_EQ(bools.zeros, 1U);
  EXPECT_DOUBLE_EQ(*bools.mean, 2.0 / 3);
  const TensorStats complex = stats_of(make_array<float>(DType::kComplex64, {2}, {3, -4, 0, 0}));
  EXPECT_EQ(complex.count, 2U);
  EXPECT_EQ(complex.max, 5);
  EXPECT_EQ(complex.zeros, 1U);
  const TensorStats small =
      stats_of(make_array<std::uint16_t>(DType::kBfloat16, {2}, {0x3f80, 0xbf80}));
  EXPECT_EQ(small.min, -1);
  EXPECT_EQ(small.max, 1);
  const TensorStats four = stats_of(make_array<std::int8_t>(DType::kInt4, {2}, {-8, 7}));
  EXPECT_EQ(four.min, -8);
  EXPECT_EQ(four.max, 7);
  const double most = std::numeric_limits<double>::max();
  const TensorStats wide = stats_of(make_array<double>(DType::kFloat64, {2}, {-most, most}));
  EXPECT_EQ(wide.histogram.front(), 1U);
  EXPECT_EQ(wide.histogram.back(), 1U);
  const TensorStats one = stats_of(make_array<double>(DType::kFloat64, {}, {7}));
  EXPECT_EQ(one.min, 7);
  EXPECT_EQ(one.stddev, 0);
  EXPECT_EQ(one.histogram.front(), 1U);
}

TEST(Stats, StringsAreRefused) {
  MemoryCheckpoint checkpoint;
  checkpoint.add_string("s", "x");
  EXPECT_THAT([&] { tensor_stats(checkpoint, 0, {.memory = kPlenty}); },
              FailsWith(Code::kInvalidArgument, "s: cannot compute statistics of string"));
}

TEST(StatsJson, HasNoNumbersThatJsonLacks) {
  TensorStats s = stats_of(make_array<float>(DType::kFloat32, {1}, {NAN}));
  EXPECT_EQ(stats_json(std::span(&s, 1)),
            "[\n{\"name\":\"a\",\"dtype\":\"float32\",\"shape\":[1],\"count\":1,\"min\":null,"
            "\"max\":null,\"mean\":null,\"std\":null,"
            "\"zeros\":0,\"nans\":1,\"infs\":0,\"histogram\":[]}\n]\n");
}

}  // namespace
}  // namespace cairn
