// cast_plan.cc -- the conversion loops, and the tables that select them.
#include <cairn/array/cast_plan.h>

#include <cairn/array/cast_ops.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace cairn::inline v0 {
namespace {

using namespace cast_ops;  // NOLINT(google-build-using-namespace): this file is about nothing else

// ---- loops ----

using CastFn = void (*)(const std::byte* from, std::byte* to, std::size_t n);

template <class Op>
[[gnu::always_inline]] inline void loop(const std::byte* from, std::byte* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    typename Op::In in;
    std::memcpy(&in, from + i * sizeof(in), sizeof(in));  // any alignment
    const typename Op::Out out = Op::apply(in);
    std::memcpy(to + i * sizeof(out), &out, sizeof(out));
  }
}

template <class Op>
void loop_baseline(const std::byte* from, std::byte* to, std::size_t n) {
  loop<Op>(from, to, n);
}

#if defined(__x86_64__)
template <class Op>
[[gnu::target("avx2")]] void loop_avx2(const std::byte* from, std::byte* to, std::size_t n) {
  loop<Op>(from, to, n);
}
bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
template <class Op>
CastFn best_loop() {
  return has_avx2() ? loop_avx2<Op> : loop_baseline<Op>;
}
#else
template <class Op>
CastFn best_loop() {
  return loop_baseline<Op>;
}
#endif

// ---- tables ----

enum class Hub : std::uint8_t { kInt32, kInt64, kUint64, kFloat, kDouble };

struct Load {
  CastFn run;  // null: the element type is the hub type
  Hub hub;
};

Load load_integer(DType from) {
  switch (from) {
    case DType::kBool:
      return {best_loop<FromBool>(), Hub::kInt32};
    case DType::kInt2:
      return {best_loop<FromSignedBits<0x3>>(), Hub::kInt32};
    case DType::kInt4:
      return {best_loop<FromSignedBits<0xf>>(), Hub::kInt32};
    case DType::kInt8:
      return {best_loop<Widen<std::int8_t, std::int32_t>>(), Hub::kInt32};
    case DType::kInt16:
      return {best_loop<Widen<std::int16_t, std::int32_t>>(), Hub::kInt32};
    case DType::kInt32:
      return {nullptr, Hub::kInt32};
    case DType::kInt64:
      return {nullptr, Hub::kInt64};
    case DType::kUint2:
      return {best_loop<FromUnsignedBits<0x3>>(), Hub::kInt32};
    case DType::kUint4:
      return {best_loop<FromUnsignedBits<0xf>>(), Hub::kInt32};
    case DType::kUint8:
      return {best_loop<Widen<std::uint8_t, std::int32_t>>(), Hub::kInt32};
    case DType::kUint16:
      return {best_loop<Widen<std::uint16_t, std::int32_t>>(), Hub::kInt32};
    case DType::kUint32:
      return {best_loop<Widen<std::uint32_t, std::int64_t>>(), Hub::kInt64};
    default:
      return {nullptr, Hub::kUint64};
  }
}

Load load_float(DType from) {
  switch (from) {
    case DType::kFloat4E2m1fn:
      return {best_loop<FromE2m1>(), Hub::kFloat};
    case DType::kFloat8E3m4:
      return {best_loop<FromFloat8<sf::kE3m4>>(), Hub::kFloat};
    case DType::kFloat8E4m3:
      return {best_loop<FromFloat8<sf::kE4m3>>(), Hub::kFloat};
    case DType::kFloat8E4m3fn:
      return {best_loop<FromFloat8<sf::kE4m3fn>>(), Hub::kFloat};
    case DType::kFloat8E4m3fnuz:
      return {best_loop<FromFloat8<sf::kE4m3fnuz>>(), Hub::kFloat};
    case DType::kFloat8E4m3b11fnuz:
      return {best_loop<FromFloat8<sf::kE4m3b11fnuz>>(), Hub::kFloat};
    case DType::kFloat8E5m2:
      return {best_loop<FromFloat8<sf::kE5m2>>(), Hub::kFloat};
    case DType::kFloat8E5m2fnuz:
      return {best_loop<FromFloat8<sf::kE5m2fnuz>>(), Hub::kFloat};
    case DType::kFloat8E8m0fnu:
      return {best_loop<FromE8m0>(), Hub::kFloat};
    case DType::kBfloat16:
      return {best_loop<FromBfloat16>(), Hub::kFloat};
    case DType::kFloat16:
      return {best_loop<FromFloat16>(), Hub::kFloat};
    case DType::kFloat32:
      return {nullptr, Hub::kFloat};
    case DType::kFloat64:
      return {nullptr, Hub::kDouble};
    case DType::kComplex64:
      return {best_loop<RealPart<float>>(), Hub::kFloat};
    default:
      return {best_loop<RealPart<double>>(), Hub::kDouble};
  }
}

// Returns the load step for pairs in which it depends on the target type.
Load load_for(DType from, DType to) {
  if (from == DType::kBfloat16 && to == DType::kFloat16)
    return {best_loop<FromBfloat16PlainNan>(), Hub::kFloat};
  if (from == DType::kFloat16 && (to == DType::kFloat64 || to == DType::kComplex128))
    return {best_loop<FromFloat16ToDouble>(), Hub::kDouble};
  if (from == DType::kComplex64 && to == DType::kBool)
    return {best_loop<ComplexNonzero<float>>(), Hub::kInt32};
  if (from == DType::kComplex128 && to == DType::kBool)
    return {best_loop<ComplexNonzero<double>>(), Hub::kInt32};
  const DTypeKind kind = dtype_kind(from);
  return kind == DTypeKind::kFloat || kind == DTypeKind::kComplex ? load_float(from)
                                                                  : load_integer(from);
}

template <class HubType, class Op>
struct Store {
  using In = HubType;
  using Out = typename Op::Out;
  [[gnu::always_inline]] static Out apply(In x) { return Op::template apply<In>(x); }
};

template <class HubType, class Op>
CastFn store() {
  if constexpr (std::is_same_v<HubType, typename Op::Out>)
    return nullptr;
  else
    return best_loop<Store<HubType, Op>>();
}

template <class H>
CastFn store_integer(DType to) {
  switch (to) {
    case DType::kBool:
      return store<H, ToBool>();
    case DType::kInt2:
    case DType::kUint2:
      return store<H, ToLowBits<0x3>>();
    case DType::kInt4:
    case DType::kUint4:
      return store<H, ToLowBits<0xf>>();
    case DType::kInt8:
    case DType::kUint8:
      return store<H, ToInteger<std::uint8_t>>();
    case DType::kInt16:
    case DType::kUint16:
      return store<H, ToInteger<std::uint16_t>>();
    case DType::kInt32:
      return store<H, ToInteger<std::int32_t>>();
    case DType::kUint32:
      return store<H, ToInteger<std::uint32_t>>();
    case DType::kInt64:
      return store<H, ToInteger<std::int64_t>>();
    default:
      return store<H, ToInteger<std::uint64_t>>();
  }
}

template <class H>
CastFn store_float(DType to) {
  switch (to) {
    case DType::kFloat4E2m1fn:
      return store<H, ToFloat8<sf::kE2m1fn>>();
    case DType::kFloat8E3m4:
      return store<H, ToFloat8<sf::kE3m4>>();
    case DType::kFloat8E4m3:
      return store<H, ToFloat8<sf::kE4m3>>();
    case DType::kFloat8E4m3fn:
      return store<H, ToFloat8<sf::kE4m3fn>>();
    case DType::kFloat8E4m3fnuz:
      return store<H, ToFloat8<sf::kE4m3fnuz>>();
    case DType::kFloat8E4m3b11fnuz:
      return store<H, ToFloat8<sf::kE4m3b11fnuz>>();
    case DType::kFloat8E5m2:
      return store<H, ToFloat8<sf::kE5m2>>();
    case DType::kFloat8E5m2fnuz:
      return store<H, ToFloat8<sf::kE5m2fnuz>>();
    case DType::kFloat8E8m0fnu:
      return store<H, ToE8m0>();
    case DType::kBfloat16:
      return store<H, ToBfloat16>();
    case DType::kFloat16:
      return store<H, ToFloat16>();
    case DType::kFloat32:
      return store<H, ToFloat<float>>();
    case DType::kFloat64:
      return store<H, ToFloat<double>>();
    case DType::kComplex64:
      return store<H, ToComplex<float>>();
    default:
      return store<H, ToComplex<double>>();
  }
}

template <class H>
CastFn store_from(DType to) {
  const DTypeKind kind = dtype_kind(to);
  return kind == DTypeKind::kFloat || kind == DTypeKind::kComplex ? store_float<H>(to)
                                                                  : store_integer<H>(to);
}

CastFn store_for(Hub hub, DType to) {
  switch (hub) {
    case Hub::kInt32:
      return store_from<std::int32_t>(to);
    case Hub::kInt64:
      return store_from<std::int64_t>(to);
    case Hub::kUint64:
      return store_from<std::uint64_t>(to);
    case Hub::kFloat:
      return store_from<float>(to);
    case Hub::kDouble:
      break;
  }
  return store_from<double>(to);
}

bool is_integer(DType dtype) {
  return dtype_kind(dtype) == DTypeKind::kInt || dtype_kind(dtype) == DTypeKind::kUint;
}
bool is_complex(DType dtype) { return dtype_kind(dtype) == DTypeKind::kComplex; }

// Returns the least or greatest value of the target's storage type, as the target type.
std::uint64_t limit(DType to, bool least) {
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - 8 * dtype_size(to));
  const bool is_signed = dtype_kind(to) == DTypeKind::kInt;
  const std::uint64_t greatest = is_signed ? all >> 1U : all;
  const std::uint64_t bits =
      dtype_bits(to) < 8 ? (1U << static_cast<unsigned>(dtype_bits(to))) - 1 : all;
  return (least ? all ^ greatest : greatest) & bits;
}

template <std::size_t kSize>
void look_up_elements(const Bytes& table, const std::byte* from, std::byte* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    std::memcpy(to + i * kSize, table.data() + std::to_integer<std::size_t>(from[i]) * kSize,
                kSize);
}

// Without prefetching, the loop that rounds float32 to float16 takes three times as long from
// memory as from the cache (measured with GCC 12 on an AVX-512 Xeon, whose hardware prefetcher does
// not follow the loop). Prefetching slows down the other loops.
void prefetch(const std::byte* bytes, std::size_t size) {
  for (std::size_t i = 0; i < size; i += 64) __builtin_prefetch(bytes + i);
}

}  // namespace

std::string_view cast_instructions() {
#if defined(__x86_64__)
  return has_avx2() ? "AVX2" : "baseline";
#elif defined(__aarch64__)
  return "NEON";  // every arm64 processor has it
#else
  return "baseline";
#endif
}

CastPlan::CastPlan(DType from, DType to) : from_size_(dtype_size(from)), to_size_(dtype_size(to)) {
  if (is_complex(from) && is_complex(to)) {
    load_ = from == DType::kComplex64 ? best_loop<ComplexToComplex<float, double>>()
                                      : best_loop<ComplexToComplex<double, float>>();
    return;
  }
  const Load load = load_for(from, to);
  load_ = load.run;
  hints_ = to == DType::kFloat16;
  store_ = store_for(load.hub, to);
  if (load_ != nullptr && dtype_kind(from) == DTypeKind::kFloat && from_size_ == 1 &&
      is_integer(to))
    tabulate(to);
}

void CastPlan::run(const std::byte* from, std::byte* to, std::size_t n) const {
  constexpr std::size_t kBlock = 1024;
  alignas(64) std::array<std::byte, kBlock * 8> middle;
  for (std::size_t done = 0; done < n; done += kBlock) {
    const std::size_t count = std::min(kBlock, n - done);
    const std::byte* source = from + done * from_size_;
    std::byte* target = to + done * to_size_;
    if (hints_ && n - done - count >= kBlock)
      prefetch(source + kBlock * from_size_, kBlock * from_size_);
    if (!table_.empty()) {
      look_up(source, target, count);
    } else if (load_ == nullptr) {
      store_(source, target, count);
    } else if (store_ == nullptr) {
      load_(source, target, count);
    } else {
      load_(source, middle.data(), count);
      store_(middle.data(), target, count);
    }
  }
}

// Tabulates 8-bit floats to integers: 256 results, with ml_dtypes' values for NaN and infinity.
void CastPlan::tabulate(DType to) {
  std::array<std::byte, 256> codes;
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  std::array<float, 256> values;
  load_(codes.data(), reinterpret_cast<std::byte*>(values.data()), codes.size());
  Bytes results(256 * to_size_);
  run(codes.data(), results.data(), codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const std::uint64_t result = std::isnan(values[i]) ? 0 : limit(to, std::signbit(values[i]));
    std::memcpy(results.data() + i * to_size_, &result, to_size_);
  }
  table_ = std::move(results);
}

void CastPlan::look_up(const std::byte* from, std::byte* to, std::size_t n) const {
  switch (to_size_) {
    case 1:
      return look_up_elements<1>(table_, from, to, n);
    case 2:
      return look_up_elements<2>(table_, from, to, n);
    case 4:
      return look_up_elements<4>(table_, from, to, n);
    default:
      return look_up_elements<8>(table_, from, to, n);
  }
}

}  // namespace cairn::inline v0
