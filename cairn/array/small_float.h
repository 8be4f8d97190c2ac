// small_float.h -- converts float to and from the floating-point types that the compiler does not
// know.
//
// A value of E exponent bits, M mantissa bits and bias B is, as in IEEE 754, from the high bit down
//      sign | exponent e (E bits) | mantissa m (M bits)
//      e > 0: (1 + m / 2^M) * 2^(e - B)     e = 0: m / 2^M * 2^(1 - B)
// The types differ in their treatment of infinity, NaN and negative zero:
//      ieee   the largest exponent is infinity (m = 0) or NaN      e3m4, e4m3, e5m2, float16
//      fn     "finite": all ones is NaN, there is no infinity      e4m3fn
//      fnuz   0x80 (negative zero) is the only NaN, no infinity    e4m3fnuz, e4m3b11fnuz, e5m2fnuz
//      e2m1fn neither infinity nor NaN: too large values become the largest
//      e8m0   powers of two from 2^-127 (0x00) to 2^127 (0xfe), no sign, no zero; 0xff is NaN
// Rounding is to nearest even. A value that does not fit becomes the same as in ml_dtypes. All
// functions are branch-free, so that loops over them vectorise.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace cairn::inline v0::small_float {

// The format of one type of up to 16 bits.
struct Spec {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  std::uint32_t largest;   // bits of the largest finite number
  std::uint32_t overflow;  // bits for larger numbers and for infinity
  std::uint32_t nan;       // bits for NaN
  bool negative_zero;      // false: 0x80 is NaN
};

// The formats; the table above explains their names.
inline constexpr Spec kE3m4{3, 4, 3, 0x6f, 0x70, 0x78, true};
inline constexpr Spec kE4m3{4, 3, 7, 0x77, 0x78, 0x7c, true};
inline constexpr Spec kE4m3fn{4, 3, 7, 0x7e, 0x7f, 0x7f, true};
inline constexpr Spec kE4m3fnuz{4, 3, 8, 0x7f, 0x80, 0x80, false};
inline constexpr Spec kE4m3b11fnuz{4, 3, 11, 0x7f, 0x80, 0x80, false};
inline constexpr Spec kE5m2{5, 2, 15, 0x7b, 0x7c, 0x7e, true};
inline constexpr Spec kE5m2fnuz{5, 2, 16, 0x7f, 0x80, 0x80, false};
inline constexpr Spec kE2m1fn{2, 1, 1, 0x07, 0x07, 0x00, true};
inline constexpr Spec kFloat16{5, 10, 15, 0x7bff, 0x7c00, 0x7e00, true};

// Returns c ? a : b, computed with arithmetic. Compilers turn the operator into a branch, and a
// loop with a branch does not vectorise.
template <class Bits>
[[gnu::always_inline]] constexpr Bits select(bool c, Bits a, Bits b) {
  const Bits mask = Bits{0} - static_cast<Bits>(c);
  return (a & mask) | (b & ~mask);
}

// Returns a < b for numbers without the top bit. Most vector units compare only signed numbers.
template <class Bits>
[[gnu::always_inline]] constexpr bool less(Bits a, Bits b) {
  return static_cast<std::make_signed_t<Bits>>(a) < static_cast<std::make_signed_t<Bits>>(b);
}

template <class Float>
struct Wide;  // the bits of the type that is rounded
template <>
struct Wide<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr int kBias = 127;
};
template <>
struct Wide<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr int kBias = 1023;
};

// Returns the bits of |x| in `spec`, without regard to NaN: the number rounded to nearest even, or
// spec.overflow.
template <class Float>
[[gnu::always_inline]] constexpr std::uint32_t round_magnitude(typename Wide<Float>::Bits magnitude,
                                                               Spec spec) {
  using W = Wide<Float>;
  using Bits = typename W::Bits;
  const int drop = W::kMantissa - spec.mantissa_bits;
  const Bits least_normal = static_cast<Bits>(W::kBias + 1 - spec.bias) << W::kMantissa;
  // Normal: add half of the last kept bit, less one for an even neighbour; the carry goes into the
  // exponent by itself.
  const Bits rounded =
      (magnitude + (Bits{1} << (drop - 1)) - 1 + ((magnitude >> drop) & 1)) >> drop;
  const Bits normal = rounded - (static_cast<Bits>(W::kBias - spec.bias) << spec.mantissa_bits);
  // Subnormal: add a number whose last bit has the weight of the target's last bit, so that the
  // adder does the rounding.
  const Bits anchor = static_cast<Bits>(W::kBias + 1 - spec.bias + drop) << W::kMantissa;
  const Bits subnormal =
      std::bit_cast<Bits>(std::bit_cast<Float>(magnitude) + std::bit_cast<Float>(anchor)) - anchor;
  const Bits bits = select<Bits>(less(magnitude, least_normal), subnormal, normal);
  return static_cast<std::uint32_t>(
      select<Bits>(less<Bits>(spec.largest, bits), spec.overflow, bits));
}

// Encodes the 8-bit types and e2m1fn.
template <Spec kSpec>
[[gnu::always_inline]] constexpr std::uint8_t encode8(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const bool is_nan = less(0x7f800000U, magnitude);
  std::uint32_t sign = bits >> 31U << (kSpec.exponent_bits + kSpec.mantissa_bits);
  // In a type without NaN, ml_dtypes converts NaN to a zero of the opposite sign.
  if constexpr (kSpec.nan == 0)
    sign ^= static_cast<std::uint32_t>(is_nan) << (kSpec.exponent_bits + kSpec.mantissa_bits);
  const std::uint32_t code = select(is_nan, kSpec.nan, round_magnitude<float>(magnitude, kSpec));
  if constexpr (!kSpec.negative_zero) sign = select(code == 0, 0U, sign);
  return static_cast<std::uint8_t>(code | sign);
}

// Decodes the 8-bit types and e2m1fn. Exact.
template <Spec kSpec>
constexpr float decode8(std::uint8_t code) {
  const int value_bits = kSpec.exponent_bits + kSpec.mantissa_bits;
  const std::uint32_t magnitude = code & ((1U << value_bits) - 1);
  std::uint32_t sign = static_cast<std::uint32_t>(code >> value_bits & 1) << 31U;
  bool is_nan = kSpec.nan != 0 && magnitude > kSpec.largest &&
                (magnitude != kSpec.overflow || kSpec.overflow == kSpec.nan);
  if (!kSpec.negative_zero) is_nan = code == 0x80;
  std::uint32_t bits = 0;
  if (is_nan) {
    bits = 0x7fc00000U;
  } else if (magnitude > kSpec.largest) {
    bits = 0x7f800000U;
  } else if (magnitude >> kSpec.mantissa_bits == 0) {
    const auto step = std::bit_cast<float>(
        static_cast<std::uint32_t>(128 - kSpec.bias - kSpec.mantissa_bits) << 23U);
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * step);
  } else {
    bits = (magnitude << (23 - kSpec.mantissa_bits)) +
           (static_cast<std::uint32_t>(127 - kSpec.bias) << 23U);
  }
  return std::bit_cast<float>(bits | sign);
}

// Like ml_dtypes, rounds halfway cases up instead of to even, and all numbers between 2^-127 and
// 2^-126 up.
[[gnu::always_inline]] constexpr std::uint8_t encode_e8m0(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded =
      bits < 0x00800000U ? (bits + 0x003fffffU) >> 23U : (bits + 0x00400000U) >> 23U;
  // Zero, all negative numbers, infinity, NaN and numbers that round beyond 2^127 become NaN.
  return static_cast<std::uint8_t>(bits == 0 || bits >= 0x7f400000U ? 0xffU : rounded);
}

// Decodes exactly; 0xff is NaN.
constexpr float decode_e8m0(std::uint8_t code) {
  if (code == 0xff) return std::bit_cast<float>(0x7fc00000U);
  return std::bit_cast<float>(code == 0 ? 0x00400000U : static_cast<std::uint32_t>(code) << 23U);
}

// Rounds to nearest even. A NaN becomes quiet and loses its payload.
[[gnu::always_inline]] constexpr std::uint16_t encode_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
  const std::uint32_t nan = (bits >> 16U & 0x8000U) | 0x7fc0U;
  return static_cast<std::uint16_t>(select(less(0x7f800000U, bits & 0x7fffffffU), nan, rounded));
}

// Decodes exactly.
[[gnu::always_inline]] constexpr float decode_bfloat16(std::uint16_t code) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16U);
}

// Encodes a float or double with one rounding. A NaN keeps the high bits of its payload, as in
// NumPy. If those are all zero, the last one is set so that it stays a NaN.
template <class Float>
[[gnu::always_inline]] constexpr std::uint16_t encode_float16(Float x) {
  using W = Wide<Float>;
  using Bits = typename W::Bits;
  constexpr Bits kInfinity = static_cast<Bits>(2 * W::kBias + 1) << W::kMantissa;
  const auto bits = std::bit_cast<Bits>(x);
  const Bits magnitude = bits & (kInfinity | (kInfinity - 1));
  const auto sign = static_cast<std::uint32_t>(bits >> (8 * sizeof(Bits) - 1)) << 15U;
  const auto payload = static_cast<std::uint32_t>(magnitude >> (W::kMantissa - 10) & 0x3ffU);
  const std::uint32_t nan = 0x7c00U | payload | static_cast<std::uint32_t>(payload == 0);
  const std::uint32_t code =
      select(less(kInfinity, magnitude), nan, round_magnitude<Float>(magnitude, kFloat16));
  return static_cast<std::uint16_t>(code | sign);
}

// Decodes exactly. A NaN keeps its payload and is not made quiet, as in NumPy.
[[gnu::always_inline]] constexpr float decode_float16(std::uint16_t code) {
  const std::uint32_t magnitude = (code & 0x7fffU) << 13U;
  // Interpreted as a float, the number is too small by 2^112. The multiplication serves normals and
  // subnormals alike.
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) *
                                                   std::bit_cast<float>((127U + 112U) << 23U));
  const std::uint32_t special = magnitude | 0x7f800000U;
  const std::uint32_t bits = select(less((0x7c00U << 13U) - 1, magnitude), special, scaled);
  return std::bit_cast<float>(bits | static_cast<std::uint32_t>(code & 0x8000U) << 16U);
}

// Like decode_float16, to double.
[[gnu::always_inline]] inline double decode_float16_to_double(std::uint16_t code) {
  const auto number = std::bit_cast<std::uint64_t>(static_cast<double>(decode_float16(code)));
  const std::uint64_t special = static_cast<std::uint64_t>(code & 0x8000U) << 48U |
                                0x7ff0000000000000U |
                                static_cast<std::uint64_t>(code & 0x3ffU) << 42U;
  return std::bit_cast<double>(select((code & 0x7c00U) == 0x7c00U, special, number));
}

// The 256 decoded values of an 8-bit type: one load is faster than any arithmetic.
template <class Decode>
constexpr std::array<float, 256> decode_table(Decode decode) {
  std::array<float, 256> table{};
  for (std::size_t i = 0; i < 256; ++i) table[i] = decode(static_cast<std::uint8_t>(i));
  return table;
}
template <Spec kSpec>
inline constexpr std::array<float, 256> kDecoded = decode_table(decode8<kSpec>);
inline constexpr std::array<float, 256> kDecodedE8m0 = decode_table(decode_e8m0);

}  // namespace cairn::inline v0::small_float
