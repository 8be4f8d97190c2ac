// diff_values.cc -- compares elements: which ones differ in their bits, and how far apart they are
// as numbers.

#include <cairn/tools/diff/diff_values.h>

#include <cairn/array/box.h>
#include <cairn/base/magnitude.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace cairn::inline v0 {
namespace {

// Real numbers: float64, or float32, which need not be converted in memory.
template <class T>
struct Reals {
  const T* a;
  const T* b;
  static double at(const T* v, std::size_t i) { return static_cast<double>(v[i]); }
  [[nodiscard]] double distance(std::size_t i) const { return std::abs(at(a, i) - at(b, i)); }
  [[nodiscard]] double magnitude(std::size_t i) const { return std::abs(at(b, i)); }
  [[nodiscard]] double product(std::size_t i) const { return at(a, i) * at(b, i); }
  [[nodiscard]] bool equal(std::size_t i) const { return a[i] == b[i]; }
  static double square(const T* v, std::size_t i) { return at(v, i) * at(v, i); }
  static bool is_finite(const T* v, std::size_t i) { return std::isfinite(v[i]); }
  static bool is_nan(const T* v, std::size_t i) { return std::isnan(v[i]); }
  static bool is_inf(const T* v, std::size_t i) { return std::isinf(v[i]); }
};

// Complex numbers as pairs of float64. As in NumPy, one is NaN if either part is NaN, otherwise
// infinite if either part is.
struct Complexes {
  const double* a;
  const double* b;
  [[nodiscard]] double distance(std::size_t i) const {
    return cairn::magnitude(a[2 * i] - b[2 * i], a[2 * i + 1] - b[2 * i + 1]);
  }
  [[nodiscard]] double magnitude(std::size_t i) const {
    return cairn::magnitude(b[2 * i], b[2 * i + 1]);
  }
  [[nodiscard]] double product(std::size_t i) const {
    return a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  }
  [[nodiscard]] bool equal(std::size_t i) const {
    return a[2 * i] == b[2 * i] && a[2 * i + 1] == b[2 * i + 1];
  }
  static double square(const double* v, std::size_t i) {
    return v[2 * i] * v[2 * i] + v[2 * i + 1] * v[2 * i + 1];
  }
  static bool is_finite(const double* v, std::size_t i) {
    return std::isfinite(v[2 * i]) && std::isfinite(v[2 * i + 1]);
  }
  static bool is_nan(const double* v, std::size_t i) {
    return std::isnan(v[2 * i]) || std::isnan(v[2 * i + 1]);
  }
  static bool is_inf(const double* v, std::size_t i) {
    return !is_nan(v, i) && (std::isinf(v[2 * i]) || std::isinf(v[2 * i + 1]));
  }
};

// Integers with 64 bits. The difference is computed exactly and then rounded to float64, so it is
// never 0 for two different numbers.
template <class T>
struct Integers {
  const T* a;
  const T* b;
  [[nodiscard]] double distance(std::size_t i) const {
    const auto x = static_cast<std::uint64_t>(a[i]);
    const auto y = static_cast<std::uint64_t>(b[i]);
    return static_cast<double>(a[i] > b[i] ? x - y : y - x);
  }
  [[nodiscard]] double magnitude(std::size_t i) const {
    return std::abs(static_cast<double>(b[i]));
  }
  [[nodiscard]] double product(std::size_t i) const {
    return static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  [[nodiscard]] bool equal(std::size_t i) const { return a[i] == b[i]; }
  static double square(const T* v, std::size_t i) {
    return static_cast<double>(v[i]) * static_cast<double>(v[i]);
  }
  static bool is_finite(const T* /*v*/, std::size_t /*i*/) { return true; }
  static bool is_nan(const T* /*v*/, std::size_t /*i*/) { return false; }
  static bool is_inf(const T* /*v*/, std::size_t /*i*/) { return false; }
};

// Handles an element that differs and may be NaN or infinite, and a pair of equal numbers with
// different bits. Returns whether it differs.
template <class Pairs>
bool special_differs(const Pairs& pairs, std::size_t i, bool bitwise, ValueDiff& out) {
  const bool nan_a = pairs.is_nan(pairs.a, i);
  const bool nan_b = pairs.is_nan(pairs.b, i);
  const bool inf_a = pairs.is_inf(pairs.a, i);
  const bool inf_b = pairs.is_inf(pairs.b, i);
  const bool equal = pairs.equal(i) || (nan_a && nan_b);
  if (equal && !bitwise) return false;
  out.bits_only += equal ? 1U : 0U;
  out.nans_a += nan_a ? 1U : 0U;
  out.nans_b += nan_b ? 1U : 0U;
  out.infs_a += inf_a ? 1U : 0U;
  out.infs_b += inf_b ? 1U : 0U;
  out.nan_mismatches += nan_a != nan_b ? 1U : 0U;
  out.inf_mismatches += (inf_a || inf_b) && !equal ? 1U : 0U;
  const bool finite = !nan_a && !nan_b && !inf_a && !inf_b;
  // the numbers are so far apart that float64 overflows
  if (finite && !equal) out.max_abs_error = std::numeric_limits<double>::infinity();
  return true;
}

// `differ`: 1 for elements whose bits differ; 1 for all elements if bits cannot be compared.
template <class Pairs>
ValueDiff count(const Pairs& pairs, std::span<const std::uint8_t> differ, const ValueRule& rule) {
  ValueDiff out;
  const bool bitwise = rule.bitwise();
  double max_abs = 0;
  double max_rel = -1;
  for (std::size_t i = 0; i < differ.size(); ++i) {
    if (differ[i] == 0) continue;
    const double distance = pairs.distance(i);
    bool different = false;
    if (distance > 0 && distance <= std::numeric_limits<double>::max()) {
      const double magnitude = pairs.magnitude(i);
      max_abs = std::max(max_abs, distance);
      if (magnitude > 0) max_rel = std::max(max_rel, distance / magnitude);
      different = bitwise || !(distance <= rule.atol + rule.rtol * magnitude);
      out.within += different ? 0U : 1U;
    } else {
      different = special_differs(pairs, i, bitwise, out);
    }
    if (!different) continue;
    ++out.different;
    if (!out.first) out.first = i;
  }
  if (max_abs > 0) out.max_abs_error = std::max(out.max_abs_error.value_or(0), max_abs);
  if (max_rel >= 0) out.max_rel_error = max_rel;
  return out;
}

// Adds pair i to the sums, without a branch for each pair: a term of a pair that is not finite
// becomes 0. kSame: a and b are the same numbers, so only those of b are added.
template <bool kSame, class Pairs>
void add_pair(const Pairs& pairs, std::size_t i, ValueSums& sums) {
  const bool finite = pairs.is_finite(pairs.b, i) && (kSame || pairs.is_finite(pairs.a, i));
  const auto kept = [&](double term) { return finite ? term : 0; };
  sums.pairs += finite ? 1U : 0U;
  sums.largest_b = std::max(sums.largest_b, kept(pairs.magnitude(i)));
  sums.squares_b.add(kept(pairs.square(pairs.b, i)));
  if constexpr (!kSame) {
    const double error = kept(pairs.distance(i));
    sums.largest_error = std::max(sums.largest_error, error);
    sums.errors.add(error * error);
    sums.squares_a.add(kept(pairs.square(pairs.a, i)));
    sums.products.add(kept(pairs.product(i)));
  }
}

// Several sums side by side: a LongSum alone waits for each addition before the next one.
template <bool kSame, class Pairs>
ValueSums sum_of(const Pairs& pairs, std::size_t n) {
  constexpr std::size_t kLanes = 4;
  std::array<ValueSums, kLanes> lanes;
  std::size_t i = 0;
  for (; n - i >= kLanes; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add_pair<kSame>(pairs, i + lane, lanes[lane]);
  for (; i < n; ++i) add_pair<kSame>(pairs, i, lanes[i % kLanes]);
  ValueSums sums;
  for (const ValueSums& lane : lanes) sums.add(lane);
  if (kSame) sums.squares_a = sums.products = sums.squares_b;
  return sums;
}

// Sums up n pairs. With `same`, a and b are the same numbers.
template <class Pairs>
void sum_up(const Pairs& pairs, std::size_t n, bool same, ValueSums& sums) {
  sums.add(same ? sum_of<true>(pairs, n) : sum_of<false>(pairs, n));
}

template <class T>
void mark(const std::byte* a, const std::byte* b, T mask, std::span<std::uint8_t> differ) {
  for (std::size_t i = 0; i < differ.size(); ++i) {
    T x;
    T y;
    std::memcpy(&x, a + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b + i * sizeof(T), sizeof(T));
    differ[i] = ((x ^ y) & mask) != 0 ? 1 : 0;
  }
}

void mark_bits(const ValueRule& rule, const std::byte* a, const std::byte* b,
               std::span<std::uint8_t> differ) {
  if (rule.a != DType::kOpaque) {
    switch (rule.size_a) {
      case 1:  // only the low bits of 2- and 4-bit types count
        return mark(
            a, b, static_cast<std::uint8_t>((1U << static_cast<unsigned>(dtype_bits(rule.a))) - 1),
            differ);
      case 2:
        return mark(a, b, std::uint16_t{0xffff}, differ);
      case 4:
        return mark(a, b, ~std::uint32_t{0}, differ);
      case 8:
        return mark(a, b, ~std::uint64_t{0}, differ);
      default:
        break;
    }
  }
  for (std::size_t i = 0; i < differ.size(); ++i)
    differ[i] = std::memcmp(a + i * rule.size_a, b + i * rule.size_a, rule.size_a) != 0 ? 1 : 0;
}

bool is_integer(DType dtype) {
  const DTypeKind kind = dtype_kind(dtype);
  return kind == DTypeKind::kBool || kind == DTypeKind::kInt || kind == DTypeKind::kUint;
}

// The type to which elements of both types are converted for comparison.
DType common_type(DType a, DType b) {
  if (dtype_kind(a) == DTypeKind::kComplex || dtype_kind(b) == DTypeKind::kComplex)
    return DType::kComplex128;
  if (!is_integer(a) || !is_integer(b)) return DType::kFloat64;
  if (a != DType::kUint64 && b != DType::kUint64) return DType::kInt64;
  const bool is_signed = dtype_kind(a) == DTypeKind::kInt || dtype_kind(b) == DTypeKind::kInt;
  return is_signed ? DType::kFloat64 : DType::kUint64;
}

// Converts elements to the common type.
const std::byte* load(const std::byte* from, std::size_t n, DType type, DType to, Bytes& scratch) {
  scratch.resize(n * dtype_size(to));
  const auto count = static_cast<std::int64_t>(n);
  cast_elements(make_view(ByteView(from, n * dtype_size(type)), type, {count}),
                make_view(MutableByteView(scratch), to, {count}));
  return scratch.data();
}

template <class T>
bool is_aligned(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) % alignof(T) == 0;
}

template <template <class> class Pairs, class T>
Pairs<T> pairs_of(const std::byte* a, const std::byte* b) {
  return {reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b)};
}

// Counts elements of unknown meaning that differ, and finds the first one.
ValueDiff count_opaque(std::span<const std::uint8_t> differ) {
  ValueDiff out;
  const auto first = std::find(differ.begin(), differ.end(), std::uint8_t{1});
  out.different = static_cast<std::uint64_t>(std::count(first, differ.end(), std::uint8_t{1}));
  if (out.different > 0) out.first = static_cast<std::uint64_t>(first - differ.begin());
  return out;
}

std::optional<double> larger(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::max(a, b) : a ? a : b;
}

}  // namespace

ValueDiff compare_elements(const ValueRule& rule, const std::byte* a, const std::byte* b,
                           std::size_t n, ValueSums& sums) {
  const bool same = rule.same_type() && std::memcmp(a, b, n * rule.size_a) == 0;
  const bool measures = rule.measures && rule.a != DType::kOpaque && rule.b != DType::kOpaque;
  if (same && !measures) return {};
  static thread_local std::vector<std::uint8_t> differ;
  static thread_local Bytes scratch_a;
  static thread_local Bytes scratch_b;
  if (!same) differ.assign(n, 1);
  if (rule.same_type() && !same) mark_bits(rule, a, b, differ);
  if (rule.a == DType::kOpaque) return count_opaque(differ);
  const auto work = [&](const auto& pairs) {
    if (measures) sum_up(pairs, n, same, sums);
    return same ? ValueDiff{} : count(pairs, differ, rule);
  };
  if (rule.same_type() && rule.a == DType::kFloat32 && is_aligned<float>(a) && is_aligned<float>(b))
    return work(pairs_of<Reals, float>(a, b));
  const DType common = common_type(rule.a, rule.b);
  const std::byte* x = load(a, n, rule.a, common, scratch_a);
  const std::byte* y = same ? x : load(b, n, rule.b, common, scratch_b);
  switch (common) {
    case DType::kInt64:
      return work(pairs_of<Integers, std::int64_t>(x, y));
    case DType::kUint64:
      return work(pairs_of<Integers, std::uint64_t>(x, y));
    case DType::kComplex128:
      return work(
          Complexes{reinterpret_cast<const double*>(x), reinterpret_cast<const double*>(y)});
    default:
      return work(pairs_of<Reals, double>(x, y));
  }
}

void merge(ValueDiff& total, const ValueDiff& part, std::uint64_t begin) {
  total.different += part.different;
  total.bits_only += part.bits_only;
  total.within += part.within;
  total.nans_a += part.nans_a;
  total.nans_b += part.nans_b;
  total.infs_a += part.infs_a;
  total.infs_b += part.infs_b;
  total.nan_mismatches += part.nan_mismatches;
  total.inf_mismatches += part.inf_mismatches;
  total.max_abs_error = larger(total.max_abs_error, part.max_abs_error);
  total.max_rel_error = larger(total.max_rel_error, part.max_rel_error);
  if (part.first)
    total.first = std::min(total.first.value_or(~std::uint64_t{0}), begin + *part.first);
}

}  // namespace cairn::inline v0
