// cast_check.cc -- compares numbers through the widest type of their kind: int64, uint64, float64.
#include <cairn/array/cast_check.h>

#include <cairn/array/box.h>
#include <cairn/array/cast_plan.h>
#include <cairn/array/strided.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kCheckedBlock = 1024;  // elements; small enough for the stack
constexpr double kTwo63 = 9223372036854775808.0;
constexpr double kTwo64 = 2 * kTwo63;

bool is_complex_type(DType dtype) { return dtype_kind(dtype) == DTypeKind::kComplex; }
bool is_integer_type(DType dtype) {
  return dtype_kind(dtype) == DTypeKind::kInt || dtype_kind(dtype) == DTypeKind::kUint;
}
bool is_inexact(DType dtype) {
  return dtype_kind(dtype) == DTypeKind::kFloat || is_complex_type(dtype);
}

// The type that holds all numbers of this one, or all real parts.
DType widest(DType dtype) {
  if (is_inexact(dtype)) return DType::kFloat64;
  return dtype == DType::kUint64 ? DType::kUint64 : DType::kInt64;
}

template <class T>
using Block = std::array<T, kCheckedBlock>;

// Converts a block to T, which is the type `to` in C++.
template <class T>
void widen(DType from, DType to, const std::byte* elements, std::size_t n, Block<T>& out) {
  if (from == to)
    std::memcpy(out.data(), elements, n * sizeof(T));
  else
    CastPlan(from, to).run(elements, reinterpret_cast<std::byte*>(out.data()), n);
}

// The first element that is not kept; n if all are. The loop over all of them vectorises.
template <class T, class Keeps>
std::size_t first_lost(const Block<T>& block, std::size_t n, Keeps keeps) {
  bool all = true;
  for (std::size_t i = 0; i < n; ++i) all &= keeps(block[i]);
  if (all) return n;
  for (std::size_t i = 0; i < n; ++i)
    if (!keeps(block[i])) return i;
  return n;
}

// Whether a float64 is this integer.
bool is_same(std::int64_t number, double converted) {
  return converted >= -kTwo63 && converted < kTwo63 &&
         static_cast<std::int64_t>(converted) == number;
}
bool is_same(std::uint64_t number, double converted) {
  return converted >= 0 && converted < kTwo64 && static_cast<std::uint64_t>(converted) == number;
}

// All integers up to this one, and their negatives, are numbers of the type; -1 if 0 is not.
std::int64_t exact_up_to(DType to) {
  switch (to) {
    case DType::kFloat64:
    case DType::kComplex128:
      return std::int64_t{1} << 53U;
    case DType::kFloat32:
    case DType::kComplex64:
      return std::int64_t{1} << 24U;
    case DType::kFloat16:
      return std::int64_t{1} << 11U;
    case DType::kBfloat16:
      return std::int64_t{1} << 8U;
    default:  // the 8- and 4-bit types: each number is converted there and back
      return -1;
  }
}

template <class T>
std::size_t lost_as_float(DType from, DType to, const std::byte* elements, std::size_t n) {
  Block<T> numbers;
  widen(from, widest(from), elements, n, numbers);
  const std::int64_t limit = exact_up_to(to);
  const auto is_small = [limit](T x) {
    if constexpr (std::is_signed_v<T>)
      return (x <= limit) & (x >= -limit);
    else
      return limit >= 0 && x <= static_cast<T>(limit);
  };
  if (first_lost(numbers, n, is_small) == n) return n;
  alignas(16) std::array<std::byte, kCheckedBlock * 16> converted;
  CastPlan(from, to).run(elements, converted.data(), n);
  Block<double> back;
  widen(to, DType::kFloat64, converted.data(), n, back);
  for (std::size_t i = 0; i < n; ++i)
    if (!is_same(numbers[i], back[i])) return i;
  return n;
}

// The least and greatest integer of a type.
struct Range {
  std::int64_t least;
  std::uint64_t greatest;
};
Range range_of(DType dtype) {
  const auto bits = static_cast<unsigned>(dtype == DType::kBool ? 1 : dtype_bits(dtype));
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - bits);
  if (dtype_kind(dtype) != DTypeKind::kInt) return {.least = 0, .greatest = all};
  return {.least = -static_cast<std::int64_t>(all >> 1U) - 1, .greatest = all >> 1U};
}

std::size_t lost_as_integer(DType from, DType to, const std::byte* elements, std::size_t n) {
  const Range range = range_of(to);
  if (is_inexact(from)) {
    Block<double> numbers;
    widen(from, DType::kFloat64, elements, n, numbers);
    const auto least = static_cast<double>(range.least);
    const std::uint64_t half = range.greatest / 2 + 1;
    const double end = 2 * static_cast<double>(half);  // a power of two: exact
    return first_lost(numbers, n,
                      [=](double x) { return (x >= least) & (x < end) & (x == std::trunc(x)); });
  }
  if (from == DType::kUint64) {
    Block<std::uint64_t> numbers;
    widen(from, from, elements, n, numbers);
    return first_lost(numbers, n, [&](std::uint64_t x) { return x <= range.greatest; });
  }
  Block<std::int64_t> numbers;
  widen(from, DType::kInt64, elements, n, numbers);
  const auto greatest = static_cast<std::int64_t>(
      std::min<std::uint64_t>(range.greatest, std::numeric_limits<std::int64_t>::max()));
  return first_lost(numbers, n,
                    [&](std::int64_t x) { return (x >= range.least) & (x <= greatest); });
}

template <class Float>
std::size_t first_imaginary(const std::byte* elements, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    Float part;
    std::memcpy(&part, elements + (2 * i + 1) * sizeof(part), sizeof(part));
    if (part != 0) return i;  // NaN, too
  }
  return n;
}

// Whether every element of a type of one byte is kept.
bool keeps_all_codes(const CastCheck& check, DType from) {
  const std::size_t count = from == DType::kBool ? 2 : std::size_t{1} << dtype_bits(from);
  std::array<std::byte, 256> codes{};
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  return check.find(codes.data(), count) == count;
}

bool may_lose(DType from, DType to, const CastCheck& check) {
  if (from == to) return false;
  if (to == DType::kBool) return true;
  if (is_inexact(from) && is_inexact(to)) return is_complex_type(from) && !is_complex_type(to);
  if (is_inexact(from)) return dtype_size(from) > 1 || !keeps_all_codes(check, from);
  if (dtype_size(from) == 1) return !keeps_all_codes(check, from);
  const Range all = range_of(from);
  if (is_inexact(to)) {
    const std::int64_t limit = exact_up_to(to);
    return limit < 0 || all.greatest > static_cast<std::uint64_t>(limit);
  }
  const Range kept = range_of(to);
  return all.least < kept.least || all.greatest > kept.greatest;
}

template <class T>
std::string number_text(T number) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

template <class T>
std::string element_as(DType dtype, DType as, const std::byte* element) {
  T number{};
  if (dtype == as)
    std::memcpy(&number, element, sizeof(number));
  else
    CastPlan(dtype, as).run(element, reinterpret_cast<std::byte*>(&number), 1);
  return number_text(number);
}

}  // namespace

CastCheck::CastCheck(DType from, DType to) : from_(from), to_(to) {
  can_lose_ = may_lose(from, to, *this);
}

std::size_t CastCheck::find(const std::byte* elements, std::size_t n) const {
  if (!can_lose_ || n == 0) return n;
  if (to_ == DType::kBool) return 0;
  const std::size_t size = dtype_size(from_);
  for (std::size_t done = 0; done < n; done += kCheckedBlock) {
    const std::size_t count = std::min(kCheckedBlock, n - done);
    const std::size_t found = find_in_block(elements + done * size, count);
    if (found != count) return done + found;
  }
  return n;
}

std::size_t CastCheck::find_in_block(const std::byte* elements, std::size_t n) const {
  if (is_integer_type(to_)) {
    const std::size_t lost = lost_as_integer(from_, to_, elements, n);
    return is_complex_type(from_) ? std::min(lost, find_imaginary(elements, n)) : lost;
  }
  if (is_inexact(from_)) return find_imaginary(elements, n);
  return from_ == DType::kUint64 ? lost_as_float<std::uint64_t>(from_, to_, elements, n)
                                 : lost_as_float<std::int64_t>(from_, to_, elements, n);
}

std::size_t CastCheck::find_imaginary(const std::byte* elements, std::size_t n) const {
  return from_ == DType::kComplex64 ? first_imaginary<float>(elements, n)
                                    : first_imaginary<double>(elements, n);
}

std::optional<std::vector<std::int64_t>> find_lost(const ArrayView& from, DType to) {
  const CastCheck check(from.dtype, to);
  if (!check.can_lose() || element_count(from.shape) == 0) return std::nullopt;
  // The last dimensions that are contiguous are one run.
  std::size_t outer = from.shape.size();
  auto run = static_cast<std::int64_t>(1);
  const auto size = static_cast<std::int64_t>(from.element_size);
  while (outer > 0 && (from.shape[outer - 1] == 1 || from.strides[outer - 1] == run * size))
    run *= from.shape[--outer];
  std::vector<std::int64_t> index(from.shape.size(), 0);
  for (;;) {
    const std::byte* start = from.data;
    for (std::size_t d = 0; d < outer; ++d) start += index[d] * from.strides[d];
    auto found = static_cast<std::int64_t>(check.find(start, static_cast<std::size_t>(run)));
    if (found != run) {
      for (std::size_t d = from.shape.size(); d-- > outer; found /= from.shape[d])
        index[d] = found % from.shape[d];
      return index;
    }
    std::size_t d = outer;
    while (d > 0 && ++index[d - 1] == from.shape[d - 1]) index[--d] = 0;
    if (d == 0) return std::nullopt;
  }
}

std::string element_text(DType dtype, const std::byte* element) {
  switch (dtype_kind(dtype)) {
    case DTypeKind::kInt:
      return element_as<std::int64_t>(dtype, DType::kInt64, element);
    case DTypeKind::kUint:
      return element_as<std::uint64_t>(dtype, DType::kUint64, element);
    case DTypeKind::kFloat:
      return dtype == DType::kFloat64 ? element_as<double>(dtype, dtype, element)
                                      : element_as<float>(dtype, DType::kFloat32, element);
    case DTypeKind::kComplex: {
      const DType part = dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
      const std::string imaginary = element_text(part, element + dtype_size(part));
      return "(" + element_text(part, element) + (imaginary[0] == '-' ? "" : "+") + imaginary +
             "j)";
    }
    default:
      return std::to_integer<int>(*element) != 0 ? "True" : "False";
  }
}

}  // namespace cairn::inline v0
