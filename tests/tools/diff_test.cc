// Two checkpoints compared: what is reported of structure, types and values.
#include <cairn/diff.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/matchers.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::make_array;
using testing::MemoryCheckpoint;

constexpr float kInf = std::numeric_limits<float>::infinity();

DiffReport diff_of(const Array& a, const Array& b, const DiffOptions& options = {}) {
  MemoryCheckpoint left;
  MemoryCheckpoint right;
  left.add("x", a);
  right.add("x", b);
  return diff(left, right, options);
}

ValueDiff values_of(const Array& a, const Array& b, const DiffOptions& options = {}) {
  const DiffReport report = diff_of(a, b, options);
  return report.leaves.empty() || !report.leaves[0].values ? ValueDiff{} : *report.leaves[0].values;
}

Array floats(const std::vector<float>& values) {
  return make_array(DType::kFloat32, {static_cast<std::int64_t>(values.size())}, values);
}

TEST(Diff, EqualBitsAreTheSame) {
  const DiffReport report = diff_of(floats({1, NAN, -0.0F, kInf}), floats({1, NAN, -0.0F, kInf}));
  EXPECT_TRUE(report.equal());
  EXPECT_EQ(report.same, 1U);
  EXPECT_EQ(report.bytes, 32U);
  EXPECT_TRUE(report.leaves.empty());
}

// One typed PRNG key.
class KeyCheckpoint : public MemoryCheckpoint {
 public:
  KeyCheckpoint(const std::string& format, std::string impl) : impl_(std::move(impl)) {
    mutable_info().format = format;
    add("key", make_array<std::uint32_t>(DType::kUint32, {4}, {1, 2, 3, 4}));
  }
  [[nodiscard]] std::string random_key_impl(std::size_t /*index*/) const override { return impl_; }

 private:
  std::string impl_;
};

TEST(Diff, RandomKeysOfOtherImplementationsDiffer) {
  const KeyCheckpoint rbg("orbax", "rbg");
  EXPECT_TRUE(diff(rbg, KeyCheckpoint("orbax", "rbg")).equal());
  for (const auto& [format, impl] : std::vector<std::pair<std::string, std::string>>{
           {"orbax", "unsafe_rbg"}, {"orbax", ""}, {"tensorflow", "unsafe_rbg"}}) {
    const KeyCheckpoint other(format, impl);
    const DiffReport report = diff(rbg, other);
    EXPECT_EQ(report.different, 1U);
    EXPECT_THAT(report.leaves.at(0).differs, ElementsAre("random_key"));
    EXPECT_EQ(report.leaves[0].b.random_key_impl, impl);
  }
  const KeyCheckpoint numbers("npz", "");
  EXPECT_TRUE(diff(rbg, numbers).equal()) << "that format knows no keys";
  EXPECT_THAT(diff(rbg, numbers).leaves.at(0).noted, ElementsAre("random_key"));
  EXPECT_FALSE(diff(numbers, rbg, {.strict = true}).equal());
}

TEST(Diff, CountsMeasuresAndPlaces) {
  const Array a = make_array<float>(DType::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 0});
  const Array b = make_array<float>(DType::kFloat32, {2, 3}, {1, 2, 3, 4.5, 4, 0});
  const DiffReport report = diff_of(a, b);
  ASSERT_EQ(report.leaves.size(), 1U);
  EXPECT_EQ(report.leaves[0].state, LeafState::kDifferent);
  EXPECT_THAT(report.leaves[0].differs, ElementsAre("values"));
  const ValueDiff& v = *report.leaves[0].values;
  EXPECT_EQ(v.different, 2U);
  EXPECT_EQ(v.max_abs_error, 1.0);
  EXPECT_EQ(v.max_rel_error, 0.25);
  EXPECT_THAT(element_index(a.shape(), v.first.value()), ElementsAre(1, 0));
  EXPECT_EQ(v.bits_only + v.nan_mismatches + v.inf_mismatches, 0U);
}

TEST(Diff, MeasuresCoverAllPairs) {
  const ValueDiff v = values_of(floats({3, 4, 0, 1}), floats({3, 4, 0, 2}));
  EXPECT_DOUBLE_EQ(v.rms_error.value(), 0.5);        // the equal pairs count
  EXPECT_DOUBLE_EQ(v.relative_error.value(), 0.25);  // 1 / 4: relative to the largest of B
  EXPECT_DOUBLE_EQ(v.cosine.value(), 27 / (std::sqrt(26.0) * std::sqrt(29.0)));
  const ValueDiff turned = values_of(floats({1, 2}), floats({-1, -2}));
  EXPECT_EQ(turned.cosine, -1.0);
  EXPECT_EQ(turned.relative_error, 2.0);
}

TEST(Diff, MeasuresAreOptional) {
  const ValueDiff v = values_of(floats({1, 2}), floats({1, 3}), {.measures = false});
  EXPECT_EQ(v.max_abs_error, 1.0);
  EXPECT_FALSE(v.rms_error || v.relative_error || v.cosine);
}

TEST(Diff, MeasuresLeaveOutNanAndInfinity) {
  const ValueDiff v =
      values_of(floats({NAN, 1, kInf, 2, NAN, kInf, 1}), floats({1, NAN, kInf, 3, NAN, 1, 1}));
  EXPECT_DOUBLE_EQ(v.rms_error.value(), std::sqrt(0.5));  // the pairs (2, 3) and (1, 1)
  EXPECT_DOUBLE_EQ(v.relative_error.value(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(v.cosine.value(), 7 / (std::sqrt(5.0) * std::sqrt(10.0)));
  const ValueDiff none = values_of(floats({NAN, 1}), floats({1, kInf}));
  EXPECT_FALSE(none.rms_error || none.relative_error || none.cosine);
}

TEST(Diff, MeasuresThatDoNotExist) {
  const ValueDiff zeros = values_of(floats({1, 2}), floats({0, 0}));
  EXPECT_TRUE(zeros.rms_error);
  EXPECT_FALSE(zeros.relative_error || zeros.cosine);
  const auto doubles = [](double x) { return make_array<double>(DType::kFloat64, {1}, {x}); };
  const ValueDiff large = values_of(doubles(1e200), doubles(-1e200));
  EXPECT_EQ(large.max_abs_error, 2e200);
  EXPECT_EQ(large.relative_error, 2.0);
  EXPECT_FALSE(large.rms_error || large.cosine);  // the squares overflow
}

TEST(Diff, MeasuresOfIntegersAndComplexNumbers) {
  const auto ints = [](std::int64_t x) {
    return make_array<std::int64_t>(DType::kInt64, {1}, {x});
  };
  const ValueDiff i = values_of(ints((std::int64_t{1} << 62) + 1), ints(std::int64_t{1} << 62));
  EXPECT_EQ(i.rms_error, 1.0);  // the difference is exact
  EXPECT_EQ(i.cosine, 1.0);
  const auto complex = [](double re, double im) {
    return make_array<double>(DType::kComplex128, {1}, {re, im});
  };
  const ValueDiff c = values_of(complex(0, 2), complex(2, 0));
  EXPECT_DOUBLE_EQ(c.rms_error.value(), std::sqrt(8.0));
  EXPECT_EQ(c.cosine, 0.0);
}

// The sums do not depend on how the elements are cut into pieces.
TEST(Diff, MeasuresDoNotDependOnMemoryAndThreads) {
  std::vector<float> a(300'000);
  std::vector<float> b(a.size());
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    state = state * 1664525U + 1013904223U;
    a[i] = std::ldexp(static_cast<float>(state >> 8U), static_cast<int>(i % 60) - 40);
    b[i] = a[i] * (i % 3 == 0 ? 1.0F : 1.001F);
  }
  const ValueDiff want = values_of(floats(a), floats(b));
  for (const std::uint64_t memory : {4'000U, 100'004U, 3'000'000U})
    for (const std::size_t threads : {1U, 3U}) {
      const ValueDiff have =
          values_of(floats(a), floats(b), {.resources = {.threads = threads, .memory = memory}});
      EXPECT_EQ(have.rms_error, want.rms_error);
      EXPECT_EQ(have.cosine, want.cosine);
      EXPECT_EQ(have.relative_error, want.relative_error);
    }
}

TEST(Diff, SpecialValuesInBits) {
  std::uint32_t payload = 0x7fc00001;
  float other_nan = 0;
  std::memcpy(&other_nan, &payload, sizeof(payload));
  const ValueDiff v = values_of(floats({0.0F, NAN, NAN, 1, kInf, kInf, 5}),
                                floats({-0.0F, other_nan, 2, NAN, -kInf, kInf, 5}));
  EXPECT_EQ(v.different, 5U);
  EXPECT_EQ(v.bits_only, 2U);
  EXPECT_EQ(v.nans_a, 2U);
  EXPECT_EQ(v.nans_b, 2U);
  EXPECT_EQ(v.nan_mismatches, 2U);
  EXPECT_EQ(v.infs_a, 1U);
  EXPECT_EQ(v.infs_b, 1U);
  EXPECT_EQ(v.inf_mismatches, 1U);
  EXPECT_FALSE(v.max_abs_error || v.max_rel_error);
  EXPECT_EQ(v.first, 0U);
}

TEST(Diff, ToleranceIsNumpys) {
  const DiffOptions loose{.rtol = 0.1, .atol = 0.01};
  const auto different = [&](float a, float b) {
    return values_of(floats({a}), floats({b}), loose).different;
  };
  EXPECT_EQ(different(1.1F, 1.0F), 0U);
  EXPECT_EQ(different(1.12F, 1.0F), 1U);
  EXPECT_EQ(different(1.0F, 1.12F), 0U);  // the tolerance is relative to b
  EXPECT_EQ(different(0.009F, 0), 0U);
  EXPECT_EQ(different(NAN, -NAN), 0U);
  EXPECT_EQ(different(0.0F, -0.0F), 0U);
  EXPECT_EQ(different(NAN, 0), 1U);
  EXPECT_EQ(different(kInf, kInf), 0U);
  EXPECT_EQ(different(kInf, -kInf), 1U);
  EXPECT_EQ(different(1, kInf), 1U);
  EXPECT_EQ(different(kInf, 1), 1U);
  const DiffReport close = diff_of(floats({1, 2}), floats({1, 2.1F}), loose);
  EXPECT_TRUE(close.equal());
  ASSERT_EQ(close.leaves.size(), 1U);
  EXPECT_THAT(close.leaves[0].noted, ElementsAre("values"));
  EXPECT_EQ(close.leaves[0].values->within, 1U);
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT([&] { diff_of(floats({1}), floats({1}), {.rtol = wrong}); },
                FailsWith(Code::kInvalidArgument, "a tolerance must be"));
}

TEST(Diff, LargeIntegersAreExact) {
  const std::int64_t big = std::int64_t{1} << 53;
  const ValueDiff v = values_of(make_array<std::int64_t>(DType::kInt64, {1}, {big}),
                                make_array<std::int64_t>(DType::kInt64, {1}, {big + 1}));
  EXPECT_EQ(v.different, 1U);
  EXPECT_EQ(v.bits_only, 0U);
  EXPECT_EQ(v.max_abs_error, 1.0);
  const auto least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(values_of(make_array<std::int64_t>(DType::kInt64, {1}, {least}),
                      make_array<std::int64_t>(DType::kInt64, {1}, {-1 - least}))
                .max_abs_error,
            std::ldexp(1.0, 64));
  const auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(values_of(make_array<std::uint64_t>(DType::kUint64, {1}, {most}),
                      make_array<std::uint64_t>(DType::kUint64, {1}, {most - 1}))
                .max_abs_error,
            1.0);
  const DiffOptions values{.ignore_dtype = true};
  EXPECT_EQ(values_of(make_array<std::uint64_t>(DType::kUint64, {1}, {most}),
                      make_array<std::uint8_t>(DType::kUint8, {1}, {255}), values)
                .different,
            1U);
}

TEST(Diff, EveryKindOfElement) {
  const ValueDiff complex = values_of(make_array<float>(DType::kComplex64, {2}, {3, -4, 0, 0}),
                                      make_array<float>(DType::kComplex64, {2}, {0, 0, 0, 0}));
  EXPECT_EQ(complex.different, 1U);
  EXPECT_EQ(complex.max_abs_error, 5.0);
  EXPECT_FALSE(complex.max_rel_error);
  const ValueDiff half_nan = values_of(make_array<float>(DType::kComplex64, {1}, {1, NAN}),
                                       make_array<float>(DType::kComplex64, {1}, {1, 2}));
  EXPECT_EQ(half_nan.nan_mismatches, 1U);
  const ValueDiff small =
      values_of(make_array<std::uint16_t>(DType::kBfloat16, {2}, {0x3f80, 0xbf80}),
                make_array<std::uint16_t>(DType::kBfloat16, {2}, {0x3f80, 0x3f80}));
  EXPECT_EQ(small.max_abs_error, 2.0);
  EXPECT_EQ(small.first, 1U);
  // Of int4 only the low four bits count.
  EXPECT_TRUE(diff_of(make_array<std::uint8_t>(DType::kInt4, {2}, {0x0f, 0x07}),
                      make_array<std::uint8_t>(DType::kInt4, {2}, {0xff, 0x07}))
                  .equal());
  EXPECT_EQ(values_of(make_array<std::uint8_t>(DType::kInt4, {1}, {0x08}),
                      make_array<std::uint8_t>(DType::kInt4, {1}, {0x07}))
                .max_abs_error,
            15.0);
  const ValueDiff bools = values_of(make_array<std::uint8_t>(DType::kBool, {2}, {1, 0}),
                                    make_array<std::uint8_t>(DType::kBool, {2}, {1, 1}));
  EXPECT_EQ(bools.different, 1U);
  EXPECT_EQ(values_of(make_array<std::uint8_t>(DType::kFloat8E8m0fnu, {1}, {127}),
                      make_array<std::uint8_t>(DType::kFloat8E8m0fnu, {1}, {128}))
                .max_abs_error,
            1.0);
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(values_of(make_array<double>(DType::kFloat64, {1}, {most}),
                      make_array<double>(DType::kFloat64, {1}, {-most}))
                .max_abs_error,
            std::numeric_limits<double>::infinity());
}

TEST(Diff, TypesAndShapes) {
  const DiffReport dtype =
      diff_of(floats({1, 2}), make_array<double>(DType::kFloat64, {2}, {1, 3}));
  EXPECT_THAT(dtype.leaves.at(0).differs, ElementsAre("dtype"));
  EXPECT_FALSE(dtype.leaves[0].values);
  const DiffReport values = diff_of(
      floats({1, 2}), make_array<double>(DType::kFloat64, {2}, {1, 3}), {.ignore_dtype = true});
  EXPECT_THAT(values.leaves.at(0).differs, ElementsAre("values"));
  EXPECT_THAT(values.leaves[0].noted, ElementsAre("dtype"));
  const DiffReport same =
      diff_of(floats({-0.0F, NAN}), make_array<double>(DType::kFloat64, {2}, {0, NAN}),
              {.ignore_dtype = true});
  EXPECT_TRUE(same.equal());
  const DiffReport shape =
      diff_of(floats({1, 2}), make_array<float>(DType::kFloat32, {2, 1}, {1, 2}));
  EXPECT_THAT(shape.leaves.at(0).differs, ElementsAre("shape"));
}

TEST(Diff, StructureStringsAndKinds) {
  MemoryCheckpoint a;
  MemoryCheckpoint b;
  a.add("both", floats({1}));
  b.add("both", floats({1}), "np.ndarray");
  a.add("gone", floats({1}));
  b.add("new", floats({1}));
  a.add_string("s", "one");
  b.add_string("s", "two");
  a.add_string("t", "same");
  b.add_string("t", "same");
  a.add_node("empty", "Dict");
  b.add_node("empty", "None");
  a.add("turned", floats({1}));
  b.add_string("turned", "1");
  const DiffReport report = diff(a, b);
  EXPECT_EQ(report.same, 2U);
  EXPECT_EQ(report.different, 3U);
  EXPECT_EQ(report.only_in_a, 1U);
  EXPECT_EQ(report.only_in_b, 1U);
  std::vector<std::string> names;
  for (const auto& leaf : report.leaves) names.push_back(leaf.name);
  EXPECT_THAT(names, ElementsAre("both", "gone", "s", "empty", "turned", "new"));
  EXPECT_THAT(report.leaves[0].noted, ElementsAre("kind"));
  EXPECT_EQ(report.leaves[2].b.text, "two");
  EXPECT_THAT(report.leaves[3].differs, ElementsAre("kind"));
  EXPECT_EQ(diff(a, b, {.strict = true}).different, 4U);
  EXPECT_TRUE(diff(a, b, {.include = {"both", "t"}}).equal());
  EXPECT_TRUE(diff(a, b, {.exclude = {"gone", "new", "s", "empty", "turned"}}).equal());
  EXPECT_THAT(diff_json(report), HasSubstr("\"text\": \"two\""));
}

TEST(Diff, DoesNotDependOnTheMemoryGiven) {
  std::vector<float> values(100'003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<float> changed = values;
  for (std::size_t i = 70'000; i < changed.size(); i += 1000) changed[i] += 2;
  const Array a = make_array(DType::kFloat32, {1, 100'003}, values);
  const Array b = make_array(DType::kFloat32, {1, 100'003}, changed);
  for (const std::uint64_t memory : {std::uint64_t{5000}, std::uint64_t{1} << 30U}) {
    const ValueDiff v = values_of(a, b, {.resources = {.memory = memory}});
    EXPECT_EQ(v.different, 31U);
    EXPECT_EQ(v.first, 70'000U);
    EXPECT_EQ(v.max_abs_error, 2.0);
  }
  EXPECT_EQ(values_of(floats({1, 2, 3}), floats({1, 2, 4}), {.resources = {.memory = 1}}).first,
            2U);
  EXPECT_TRUE(diff_of(floats({}), floats({})).equal());
}

// Whose tensor of this index is damaged.
class DamagedCheckpoint : public MemoryCheckpoint {
 public:
  explicit DamagedCheckpoint(std::size_t damaged) : damaged_(damaged) {}
  using MemoryCheckpoint::read;
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override {
    for (const auto& r : requests)
      if (r.tensor == damaged_)
        throw Error(Code::kDataLoss, tensors()[r.tensor].name + ": bad checksum");
    MemoryCheckpoint::read(requests, progress);
  }

 private:
  std::size_t damaged_;
};

TEST(Diff, GoesOnAfterDamage) {
  MemoryCheckpoint a;
  DamagedCheckpoint b(1);
  for (const char* name : {"x", "y", "z"}) {
    a.add(name, floats({1, 2}));
    b.add(name, floats({1, name[0] == 'z' ? 3.0F : 2.0F}));
  }
  for (const std::uint64_t memory : {std::uint64_t{8}, std::uint64_t{1} << 20U}) {
    const DiffReport report = diff(a, b, {.resources = {.memory = memory}});
    EXPECT_EQ(report.same, 1U);
    EXPECT_EQ(report.different, 1U);
    EXPECT_EQ(report.unreadable, 1U);
    ASSERT_EQ(report.leaves.size(), 2U);
    EXPECT_EQ(report.leaves[0].state, LeafState::kUnreadable);
    EXPECT_EQ(report.leaves[0].b.error, "y: bad checksum");
    EXPECT_EQ(report.leaves[0].a.error, "");
    EXPECT_FALSE(report.leaves[0].values);
    EXPECT_FALSE(report.equal());
  }
}

TEST(DiffJson, IsAsDocumented) {
  EXPECT_EQ(diff_json(diff_of(floats({1, 2}), floats({1, NAN}))),
            R"({
  "equal": false,
  "same": 0,
  "different": 1,
  "only_in_a": 0,
  "only_in_b": 0,
  "unreadable": 0,
  "non_finite": 1,
  "bytes": 16,
  "leaves": [
    {
      "name": "x",
      "state": "different",
      "differs": ["values"],
      "noted": [],
      "a": {
        "kind": "jax.Array",
        "dtype": "float32",
        "shape": [2]
      },
      "b": {
        "kind": "jax.Array",
        "dtype": "float32",
        "shape": [2]
      },
      "values": {
        "different": 1,
        "bits_only": 0,
        "within": 0,
        "max_abs_error": null,
        "max_rel_error": null,
        "rms_error": 0.0,
        "relative_error": 0.0,
        "cosine": 1.0,
        "nans": [0, 1],
        "infs": [0, 0],
        "nan_mismatches": 1,
        "inf_mismatches": 0,
        "first": [1]
      }
    }
  ]
}
)");
}

}  // namespace
}  // namespace cairn
