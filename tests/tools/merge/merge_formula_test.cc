// merge_formula_test.cc -- the sums, number by number, and rounding once: against the nearest of
// all numbers of the narrow type.
#include <cairn/array/rounding.h>
#include <cairn/tools/merge/merge_formula.h>

#include <cairn/array/box.h>
#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/matchers.h"
#include "tests/support/seed.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;

std::vector<double> merged(const MergeOptions& options, const std::vector<std::vector<double>>& x,
                           const std::vector<double>& base = {}) {
  const MergeFormula formula(options, x.size());
  std::vector<double> sums(x[0].size(), -7);
  for (std::size_t i = 0; i < x.size(); ++i)
    formula.add(i, x[i].data(), base.empty() ? nullptr : base.data(), sums.data(), sums.size());
  formula.finish(sums.data(), sums.size());
  return sums;
}

MergeOptions with_base() { return {.base = std::make_shared<testing::MemoryCheckpoint>()}; }

TEST(MergeFormula, Methods) {
  const std::vector<std::vector<double>> x = {{1, 10}, {2, 20}, {6, 0}};
  EXPECT_THAT(merged({}, x), ElementsAre(3, 10));
  EXPECT_THAT(merged({.weights = {1, 2, 0.5}}, x), ElementsAre(8, 50));
  EXPECT_THAT(merged({.ema = 0.5}, x), ElementsAre(3.75, 7.5));
  EXPECT_THAT(merged({.ema = 1}, x), ElementsAre(1, 10));
  EXPECT_THAT(merged({.ema = 0}, x), ElementsAre(6, 0));
  MergeOptions options = with_base();
  EXPECT_THAT(merged(options, x, {1, 1}), ElementsAre(7, 28));
  options.scale = 0.5;
  EXPECT_THAT(merged(options, x, {1, 1}), ElementsAre(4, 14.5));
  options.weights = {2, 0, 1};
  EXPECT_THAT(merged(options, x, {1, 1}), ElementsAre(3.5, 9.5));
}

// A fused multiply-add would leave the part of the product that rounding takes: 2^-54.
TEST(MergeFormula, RoundsTheProductAndTheSum) {
  const double x = 1 + 0x1p-27;
  EXPECT_THAT(merged({.weights = {1, x}}, {{-(1 + 0x1p-26)}, {x}}), ElementsAre(0));
}

TEST(MergeFormula, NanAndInfinityPropagate) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> mean = merged({}, {{inf, inf, NAN, 1e308}, {1, -inf, 1, 1e308}});
  EXPECT_EQ(mean[0], inf);
  EXPECT_TRUE(std::isnan(mean[1]));
  EXPECT_TRUE(std::isnan(mean[2]));
  EXPECT_EQ(mean[3], inf);
  EXPECT_TRUE(std::isnan(merged({.weights = {0, 1}}, {{inf}, {1}})[0]));
  EXPECT_TRUE(std::isnan(merged(with_base(), {{1}}, {inf})[0]));
}

TEST(MergeFormula, RefusesWhatMakesNoSense) {
  const auto refused = [](const MergeOptions& options, std::size_t sources, const char* why) {
    EXPECT_THAT([&] { MergeFormula(options, sources); }, FailsWith(Code::kInvalidArgument, why));
  };
  refused({}, 1, "1 checkpoint to merge: expected at least 2");
  refused({}, 0, "0 checkpoints to merge");
  refused(with_base(), 0, "expected at least 1");
  refused({.weights = {1}}, 2, "1 weights for 2 checkpoints");
  refused({.weights = {1, NAN}}, 2, "the weight nan is not a finite number");
  refused({.weights = {1, 1}, .ema = 0.5}, 2, "choose one method");
  refused({.ema = 1.5}, 2, "1.5 of ema is not between 0 and 1");
  refused({.ema = NAN}, 2, "is not between 0 and 1");
  refused({.scale = 2}, 2, "scale needs a base");
  refused({.dtype = DType::kInt8}, 2, "int8: expected a floating-point type");
  MergeOptions options = with_base();
  options.scale = INFINITY;
  refused(options, 2, "the scale inf is not a finite number");
  options = with_base();
  options.ema = 0.5;
  refused(options, 2, "choose one method");
}

// ---- rounding ----

double number_of_code(DType dtype, std::uint32_t code) {
  double out = 0;
  const auto bits = static_cast<std::uint16_t>(code);
  const auto size = static_cast<std::int64_t>(dtype_size(dtype));
  cast_elements({reinterpret_cast<const std::byte*>(&bits), dtype, dtype_size(dtype), {1}, {size}},
                {reinterpret_cast<std::byte*>(&out), DType::kFloat64, 8, {1}, {8}});
  return out;
}

std::uint32_t rounded_code(DType dtype, double x) {
  std::uint16_t bits = 0;
  const auto size = static_cast<std::int64_t>(dtype_size(dtype));
  prepare_rounding(&x, 1, dtype);
  cast_elements({reinterpret_cast<const std::byte*>(&x), DType::kFloat64, 8, {1}, {8}},
                {reinterpret_cast<std::byte*>(&bits), dtype, dtype_size(dtype), {1}, {size}});
  return bits;
}

// Checks numbers beside the middle of each pair of neighbours: those that a float32 cannot tell
// from the middle, too.
void expect_rounded_once(DType dtype, std::uint32_t codes) {
  for (std::uint32_t code = 0; code + 1 < codes; ++code) {
    const double low = number_of_code(dtype, code);
    const double high = number_of_code(dtype, code + 1);
    if (!std::isfinite(low) || !std::isfinite(high) || !(low < high)) continue;
    const double middle = low + (high - low) / 2;
    for (const double sign : {1.0, -1.0}) {
      const std::uint32_t mark = sign < 0 ? codes : 0;
      EXPECT_EQ(rounded_code(dtype, sign * middle), (code % 2 == 0 ? code : code + 1) | mark)
          << code;
      EXPECT_EQ(rounded_code(dtype, sign * std::nextafter(middle, low)), code | mark) << code;
      EXPECT_EQ(rounded_code(dtype, sign * std::nextafter(middle, high)), (code + 1) | mark)
          << code;
      EXPECT_EQ(rounded_code(dtype, sign * low), code | mark) << code;
    }
  }
}

TEST(MergeRounding, OnceToBfloat16) { expect_rounded_once(DType::kBfloat16, 0x8000); }
TEST(MergeRounding, OnceToFloat16) { expect_rounded_once(DType::kFloat16, 0x8000); }
TEST(MergeRounding, OnceToFloat8) {
  for (const DType dtype :
       {DType::kFloat8E4m3fn, DType::kFloat8E5m2, DType::kFloat8E4m3, DType::kFloat8E3m4})
    expect_rounded_once(dtype, 0x80);
}

TEST(MergeRounding, FloatsBeyondTheRangeOfFloat32) {
  EXPECT_EQ(rounded_code(DType::kBfloat16, 1e300), 0x7f80U);
  EXPECT_EQ(rounded_code(DType::kBfloat16, -1e300), 0xff80U);
  EXPECT_EQ(rounded_code(DType::kBfloat16, INFINITY), 0x7f80U);
  EXPECT_EQ(rounded_code(DType::kBfloat16, 1e-300), 0U);
  EXPECT_EQ(rounded_code(DType::kBfloat16, -1e-300), 0x8000U);
  EXPECT_EQ(rounded_code(DType::kBfloat16, -0.0), 0x8000U);
  EXPECT_EQ(rounded_code(DType::kBfloat16, NAN) & 0x7fffU, 0x7fc0U);
  // the middle of zero and the least subnormal number, and a little more
  EXPECT_EQ(rounded_code(DType::kBfloat16, std::ldexp(1.0, -134)), 0U);
  EXPECT_EQ(rounded_code(DType::kBfloat16, std::nextafter(std::ldexp(1.0, -134), 1)), 1U);
}

TEST(MergeRounding, LeavesOtherTypesAlone) {
  std::mt19937 random(testing::seed());
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kComplex64}) {
    double x = std::normal_distribution<double>()(random);
    const double before = x;
    prepare_rounding(&x, 1, dtype);
    EXPECT_EQ(x, before);
  }
}

}  // namespace
}  // namespace cairn
