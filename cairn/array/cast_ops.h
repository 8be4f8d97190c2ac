// cast_ops.h -- the conversions of one element, as function objects for the loops in cast_plan.cc.
#pragma once

#include <cairn/array/small_float.h>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace cairn::inline v0::cast_ops {

namespace sf = small_float;

// ---- numbers ----

template <class T>
struct Complex {
  T re;
  T im;
};

// Selects a convertible value first and then converts it: this is defined for every x and
// vectorises.
template <class Int, class Float>
[[gnu::always_inline]] inline Int truncate_or_least(Float x) {
  constexpr auto kLeast = static_cast<Float>(std::numeric_limits<Int>::min());
  const Float convertible = x >= kLeast && x < -kLeast ? x : kLeast;
  return static_cast<Int>(convertible);
}

template <class Int, class Hub>
[[gnu::always_inline]] inline Int to_integer(Hub x) {
  if constexpr (std::is_integral_v<Hub>) {
    return static_cast<Int>(x);
  } else if constexpr (std::is_same_v<Int, std::uint64_t>) {
    constexpr auto kHalf = static_cast<Hub>(std::uint64_t{1} << 63U);
    const bool high = x >= kHalf;
    const auto low_part =
        static_cast<std::uint64_t>(truncate_or_least<std::int64_t>(high ? x - kHalf : x));
    return low_part ^ static_cast<std::uint64_t>(high) << 63U;
  } else if constexpr (sizeof(Int) == 8 || std::is_same_v<Int, std::uint32_t>) {
    return static_cast<Int>(truncate_or_least<std::int64_t>(x));
  } else {
    return static_cast<Int>(truncate_or_least<std::int32_t>(x));
  }
}

// ---- stores: from a hub type to an element type ----

template <class Int>
struct ToInteger {
  using Out = Int;
  template <class Hub>
  [[gnu::always_inline]] static Out apply(Hub x) {
    return to_integer<Int>(x);
  }
};

template <unsigned kMask>
struct ToLowBits {
  using Out = std::uint8_t;
  template <class Hub>
  [[gnu::always_inline]] static Out apply(Hub x) {
    return static_cast<Out>(to_integer<std::uint8_t>(x) & kMask);
  }
};

struct ToBool {
  using Out = std::uint8_t;
  template <class Hub>
  [[gnu::always_inline]] static Out apply(Hub x) {
    return static_cast<Out>(x != Hub{0});
  }
};

template <class Float>
struct ToFloat {
  using Out = Float;
  template <class Hub>
  [[gnu::always_inline]] static Out apply(Hub x) {
    return static_cast<Out>(x);
  }
};

template <class Float>
struct ToComplex {
  using Out = Complex<Float>;
  template <class Hub>
  [[gnu::always_inline]] static Out apply(Hub x) {
    return {static_cast<Float>(x), Float{0}};
  }
};

template <sf::Spec kSpec>
struct ToFloat8 {
  using Out = std::uint8_t;
  template <class Hub>
  [[gnu::always_inline]] static Out apply(Hub x) {
    return sf::encode8<kSpec>(static_cast<float>(x));
  }
};

struct ToE8m0 {
  using Out = std::uint8_t;
  template <class Hub>
  [[gnu::always_inline]] static Out apply(Hub x) {
    return sf::encode_e8m0(static_cast<float>(x));
  }
};

struct ToBfloat16 {
  using Out = std::uint16_t;
  template <class Hub>
  [[gnu::always_inline]] static Out apply(Hub x) {
    return sf::encode_bfloat16(static_cast<float>(x));
  }
};

struct ToFloat16 {
  using Out = std::uint16_t;
  template <class Hub>
  [[gnu::always_inline]] static Out apply(Hub x) {
    if constexpr (std::is_same_v<Hub, double>)
      return sf::encode_float16(x);
    else
      return sf::encode_float16(static_cast<float>(x));
  }
};

// ---- loads: from an element type to its hub type ----

template <class In_, class Out_>
struct Widen {
  using In = In_;
  using Out = Out_;
  [[gnu::always_inline]] static Out apply(In x) { return static_cast<Out>(x); }
};

struct FromBool {
  using In = std::uint8_t;
  using Out = std::int32_t;
  [[gnu::always_inline]] static Out apply(In x) { return static_cast<Out>(x != 0); }
};

template <unsigned kMask>
struct FromUnsignedBits {
  using In = std::uint8_t;
  using Out = std::int32_t;
  [[gnu::always_inline]] static Out apply(In x) { return static_cast<Out>(x & kMask); }
};

template <unsigned kMask>
struct FromSignedBits {
  using In = std::uint8_t;
  using Out = std::int32_t;
  // Maps the sign bit to the bottom of the range and back.
  [[gnu::always_inline]] static Out apply(In x) {
    constexpr auto kSign = static_cast<Out>((kMask + 1) / 2);
    return (static_cast<Out>(x & kMask) ^ kSign) - kSign;
  }
};

template <sf::Spec kSpec>
struct FromFloat8 {
  using In = std::uint8_t;
  using Out = float;
  [[gnu::always_inline]] static Out apply(In x) { return sf::kDecoded<kSpec>[x]; }
};

struct FromE2m1 {
  using In = std::uint8_t;
  using Out = float;
  [[gnu::always_inline]] static Out apply(In x) { return sf::kDecoded<sf::kE2m1fn>[x & 0xfU]; }
};

struct FromE8m0 {
  using In = std::uint8_t;
  using Out = float;
  [[gnu::always_inline]] static Out apply(In x) { return sf::kDecodedE8m0[x]; }
};

struct FromBfloat16 {
  using In = std::uint16_t;
  using Out = float;
  [[gnu::always_inline]] static Out apply(In x) { return sf::decode_bfloat16(x); }
};

// A bfloat16 NaN loses its payload in the conversion to float16, unlike a float32 NaN.
struct FromBfloat16PlainNan {
  using In = std::uint16_t;
  using Out = float;
  [[gnu::always_inline]] static Out apply(In x) {
    const bool is_nan = (x & 0x7fffU) > 0x7f80U;
    return sf::decode_bfloat16(static_cast<In>(is_nan ? (x & 0x8000U) | 0x7fc0U : x));
  }
};

struct FromFloat16 {
  using In = std::uint16_t;
  using Out = float;
  [[gnu::always_inline]] static Out apply(In x) { return sf::decode_float16(x); }
};

struct FromFloat16ToDouble {
  using In = std::uint16_t;
  using Out = double;
  [[gnu::always_inline]] static Out apply(In x) { return sf::decode_float16_to_double(x); }
};

template <class Float>
struct RealPart {
  using In = Complex<Float>;
  using Out = Float;
  [[gnu::always_inline]] static Out apply(In x) { return x.re; }
};

template <class Float>
struct ComplexNonzero {
  using In = Complex<Float>;
  using Out = std::int32_t;
  [[gnu::always_inline]] static Out apply(In x) {
    return static_cast<Out>(x.re != Float{0} || x.im != Float{0});
  }
};

template <class From, class To>
struct ComplexToComplex {
  using In = Complex<From>;
  using Out = Complex<To>;
  [[gnu::always_inline]] static Out apply(In x) {
    return {static_cast<To>(x.re), static_cast<To>(x.im)};
  }
};

}  // namespace cairn::inline v0::cast_ops
