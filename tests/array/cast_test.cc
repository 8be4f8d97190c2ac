// cast_test.cc -- conversion between element types against tables that NumPy and ml_dtypes wrote,
// and what they leave open.
#include <cairn/array/box.h>
#include <cairn/array/cast_all.h>
#include <cairn/base/byte_io.h>
#include <cairn/error.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

namespace cairn {
namespace {

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

std::string golden(DType dtype, const char* suffix) {
  const std::string path =
      fmt::format("{}/dtypes/ml_dtypes-0.6.0/{}.{}", CAIRN_GOLDEN_DIR, dtype_name(dtype), suffix);
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Bytes cast(DType from, DType to, ByteView values) {
  const auto n = static_cast<std::int64_t>(values.size() / dtype_size(from));
  Bytes out(static_cast<std::size_t>(n) * dtype_size(to), std::byte{0xcc});
  cast_elements(make_view(values, from, {n}), make_view(MutableByteView(out), to, {n}));
  return out;
}

std::string hex(ByteView bytes) {
  std::string text;
  for (std::size_t i = bytes.size(); i-- > 0;)
    text += fmt::format("{:02x}", std::to_integer<int>(bytes[i]));
  return text;
}

void expect_same(DType from, DType to, ByteView in, ByteView out, ByteView expected) {
  ASSERT_EQ(out.size(), expected.size());
  int shown = 0;
  for (std::size_t i = 0; i * dtype_size(to) < out.size() && shown < 8; ++i) {
    const ByteView got = out.subspan(i * dtype_size(to), dtype_size(to));
    const ByteView want = expected.subspan(i * dtype_size(to), dtype_size(to));
    if (std::equal(got.begin(), got.end(), want.begin())) continue;
    ADD_FAILURE() << fmt::format("{} to {}: {} became {}, not {}", dtype_name(from), dtype_name(to),
                                 hex(in.subspan(i * dtype_size(from), dtype_size(from))), hex(got),
                                 hex(want));
    ++shown;
  }
}

DType read_name(ByteReader& in) {
  const auto name = in.text(in.u8());
  const auto dtype = dtype_from_name(name);
  EXPECT_TRUE(dtype.has_value()) << name;
  return dtype.value();
}

TEST(CastGolden, ChosenValuesBetweenAllTypes) {
  int pairs = 0;
  for (const DType from : all_types()) {
    const std::string file = golden(from, "casts");
    ByteReader in(as_bytes(file));
    const std::size_t size = dtype_size(from);
    const ByteView usual = in.take(in.u32() * size);
    while (!in.at_end()) {
      const DType to = read_name(in);
      const std::uint32_t n = in.u32();
      const ByteView values = n == 0xffffffffU ? usual : in.take(n * size);
      const ByteView expected = in.take(values.size() / size * dtype_size(to));
      expect_same(from, to, values, cast(from, to, values), expected);
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 28 * 27 - 34) << "NumPy refuses 34 of the pairs";
}

TEST(CastGolden, EveryPatternOfTheSixteenBitTypes) {
  for (const DType from : {DType::kBfloat16, DType::kFloat16}) {
    std::vector<std::uint16_t> patterns(0x10000);
    for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
    const ByteView values = std::as_bytes(std::span(patterns));
    const std::string file = golden(from, "runs");
    ByteReader in(as_bytes(file));
    int targets = 0;
    while (!in.at_end()) {
      const DType to = read_name(in);
      Bytes expected;
      for (std::uint32_t runs = in.u32(); runs > 0; --runs) {
        const std::size_t end = in.u16() + std::size_t{1};
        const ByteView result = in.take(dtype_size(to));
        while (expected.size() < end * dtype_size(to))
          expected.insert(expected.end(), result.begin(), result.end());
      }
      ASSERT_EQ(expected.size(), 0x10000 * dtype_size(to));
      expect_same(from, to, values, cast(from, to, values), expected);
      ++targets;
    }
    EXPECT_EQ(targets, 10);
  }
}

template <class T>
ByteView bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
std::vector<T> values_of(ByteView bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// What IEEE 754 says a 16-bit pattern is worth, by arithmetic the library does not use.
double worth(std::uint16_t code, int mantissa_bits, int bias) {
  const int exponent = (code & 0x7fff) >> mantissa_bits;
  const double mantissa = std::ldexp(code & ((1 << mantissa_bits) - 1), -mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias);
  return (code & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Cast, EveryFinitePatternWidensExactlyAndComesBack) {
  struct Half {
    DType dtype;
    int mantissa_bits;
    int bias;
  };
  for (const Half half : {Half{DType::kBfloat16, 7, 127}, Half{DType::kFloat16, 10, 15}}) {
    std::vector<std::uint16_t> patterns;
    for (unsigned i = 0; i < 0x10000; ++i)
      if ((i & 0x7fffU) >> half.mantissa_bits != (0x7fffU >> half.mantissa_bits))
        patterns.push_back(static_cast<std::uint16_t>(i));
    const auto singles = values_of<float>(cast(half.dtype, DType::kFloat32, bytes_of(patterns)));
    const auto doubles = values_of<double>(cast(half.dtype, DType::kFloat64, bytes_of(patterns)));
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const double expected = worth(patterns[i], half.mantissa_bits, half.bias);
      ASSERT_EQ(static_cast<double>(singles[i]), expected) << patterns[i];
      ASSERT_EQ(doubles[i], expected) << patterns[i];
      ASSERT_EQ(std::signbit(singles[i]), std::signbit(expected)) << patterns[i];
    }
    EXPECT_EQ(cast(DType::kFloat32, half.dtype, bytes_of(singles)),
              Bytes(bytes_of(patterns).begin(), bytes_of(patterns).end()));
    EXPECT_EQ(cast(DType::kFloat64, half.dtype, bytes_of(doubles)),
              Bytes(bytes_of(patterns).begin(), bytes_of(patterns).end()));
  }
}

// Rounding by definition: of the two neighbours the nearer, of equally near ones the even one.
std::uint16_t nearest_float16(double x) {
  std::uint16_t low = 0;
  std::uint16_t high = 0x7c00;  // worth 2^16, the number after the largest
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (worth(middle, 10, 15) <= x ? low : high) = middle;
  }
  if (x >= worth(high, 10, 15)) return high;
  const double below = x - worth(low, 10, 15);
  const double above = worth(high, 10, 15) - x;
  if (below != above) return below < above ? low : high;
  return low % 2 == 0 ? low : high;
}

TEST(Cast, DoublesReachFloat16InOneRounding) {
  std::mt19937_64 random(7);
  std::vector<double> values;
  for (int i = 0; i < 20000; ++i) {
    const double tie = (worth(static_cast<std::uint16_t>(random() % 0x7c00), 10, 15) +
                        worth(static_cast<std::uint16_t>(random() % 0x7c00), 10, 15)) /
                       2;
    const std::uint16_t code = static_cast<std::uint16_t>(random() % 0x7bff);
    const double half =
        (worth(code, 10, 15) + worth(static_cast<std::uint16_t>(code + 1), 10, 15)) / 2;
    for (const double x : {tie, half, std::nextafter(half, 0.0), std::nextafter(half, 1e9)})
      values.push_back(x);
  }
  const auto got =
      values_of<std::uint16_t>(cast(DType::kFloat64, DType::kFloat16, bytes_of(values)));
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(got[i], nearest_float16(values[i])) << fmt::format("{:a}", values[i]);
}

TEST(Cast, IntegersWrap) {
  const std::vector<std::int64_t> in{-1, 255, 256, 70000, std::numeric_limits<std::int64_t>::min()};
  EXPECT_EQ(values_of<std::uint8_t>(cast(DType::kInt64, DType::kUint8, bytes_of(in))),
            (std::vector<std::uint8_t>{255, 255, 0, 112, 0}));
  EXPECT_EQ(values_of<std::int16_t>(cast(DType::kInt64, DType::kInt16, bytes_of(in))),
            (std::vector<std::int16_t>{-1, 255, 256, 4464, 0}));
  EXPECT_EQ(values_of<std::uint64_t>(cast(DType::kInt64, DType::kUint64, bytes_of(in)))[0],
            ~std::uint64_t{0});
  const std::vector<std::uint64_t> big{~std::uint64_t{0}};
  EXPECT_EQ(values_of<double>(cast(DType::kUint64, DType::kFloat64, bytes_of(big)))[0], 0x1p64);
}

TEST(Cast, SmallIntegersCountTheirLowBitsOnly) {
  const std::vector<std::uint8_t> dirty{0xf7, 0x8f, 0xff, 0x0f, 0x08, 0x77};
  EXPECT_EQ(values_of<std::int8_t>(cast(DType::kInt4, DType::kInt8, bytes_of(dirty))),
            (std::vector<std::int8_t>{7, -1, -1, -1, -8, 7}));
  EXPECT_EQ(values_of<std::uint8_t>(cast(DType::kUint4, DType::kUint8, bytes_of(dirty))),
            (std::vector<std::uint8_t>{7, 15, 15, 15, 8, 7}));
  EXPECT_EQ(values_of<std::int8_t>(cast(DType::kInt2, DType::kInt8, bytes_of(dirty))),
            (std::vector<std::int8_t>{-1, -1, -1, -1, 0, -1}));
  EXPECT_EQ(values_of<float>(cast(DType::kFloat4E2m1fn, DType::kFloat32,
                                  bytes_of(std::vector<std::uint8_t>{0xf2, 0x0a}))),
            (std::vector<float>{1, -1}));
  const std::vector<std::int32_t> in{-1, 7, 8};
  EXPECT_EQ(values_of<std::uint8_t>(cast(DType::kInt32, DType::kInt4, bytes_of(in))),
            (std::vector<std::uint8_t>{0x0f, 0x07, 0x08}));
}

// Pairs NumPy refuses: integers wrap, 8-bit floats go through float32.
TEST(Cast, PairsWithoutAReferenceFollowTheRule) {
  std::vector<std::uint8_t> codes(256);
  for (std::size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::uint8_t>(i);
  const DType narrow[] = {DType::kInt2, DType::kInt4, DType::kUint2, DType::kUint4};
  for (const DType a : narrow) {
    for (const DType b : narrow) {
      if (a == b) continue;
      EXPECT_EQ(cast(a, b, bytes_of(codes)),
                cast(DType::kInt64, b, cast(a, DType::kInt64, bytes_of(codes))));
    }
  }
  for (const DType a : all_types()) {
    if (dtype_kind(a) != DTypeKind::kFloat || dtype_size(a) != 1 || a == DType::kFloat8E8m0fnu)
      continue;
    const DType e8 = DType::kFloat8E8m0fnu;
    EXPECT_EQ(cast(a, e8, bytes_of(codes)),
              cast(DType::kFloat32, e8, cast(a, DType::kFloat32, bytes_of(codes))))
        << dtype_name(a);
    EXPECT_EQ(cast(e8, a, bytes_of(codes)),
              cast(DType::kFloat32, a, cast(e8, DType::kFloat32, bytes_of(codes))))
        << dtype_name(a);
  }
}

TEST(Cast, OutOfRangeIntegersAreAsTheMachineConvertsThem) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> in{300.0, -1.5, 3e9, 1e19, 2e19, -1e19, std::nan(""), kInf, -kInf};
  EXPECT_EQ(values_of<std::int8_t>(cast(DType::kFloat64, DType::kInt8, bytes_of(in))),
            (std::vector<std::int8_t>{44, -1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(values_of<std::uint32_t>(cast(DType::kFloat64, DType::kUint32, bytes_of(in))),
            (std::vector<std::uint32_t>{300, 0xffffffffU, 3000000000U, 0, 0, 0, 0, 0, 0}));
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(
      values_of<std::int32_t>(cast(DType::kFloat64, DType::kInt32, bytes_of(in))),
      (std::vector<std::int32_t>{300, -1, kLeast, kLeast, kLeast, kLeast, kLeast, kLeast, kLeast}));
  constexpr std::uint64_t kTop = std::uint64_t{1} << 63U;
  EXPECT_EQ(values_of<std::uint64_t>(cast(DType::kFloat64, DType::kUint64, bytes_of(in))),
            (std::vector<std::uint64_t>{300, ~std::uint64_t{0}, 3000000000U, 10000000000000000000U,
                                        0, kTop, kTop, 0, kTop}));
}

// Every length and alignment, so that the vector loops and their remainders are all seen.
TEST(Cast, LengthAndAlignmentDoNotMatter) {
  std::mt19937_64 random(11);
  Bytes in(2100 * 16 + 7);
  for (auto& b : in) b = static_cast<std::byte>(random());
  for (const DType from : all_types()) {
    for (const DType to : all_types()) {
      const std::size_t a = dtype_size(from);
      const std::size_t b = dtype_size(to);
      const Bytes whole = cast(from, to, ByteView(in).subspan(1, 2100 * a));
      for (const std::size_t first : {0UL, 5UL, 1020UL}) {
        for (const std::size_t n : {0UL, 1UL, 3UL, 17UL, 1033UL}) {
          Bytes out(n * b + 3, std::byte{0x77});
          cast_elements(make_view(ByteView(in).subspan(1 + first * a, n * a), from,
                                  {static_cast<std::int64_t>(n)}),
                        make_view(MutableByteView(out).subspan(1, n * b), to,
                                  {static_cast<std::int64_t>(n)}));
          ASSERT_TRUE(std::equal(whole.begin() + static_cast<std::ptrdiff_t>(first * b),
                                 whole.begin() + static_cast<std::ptrdiff_t>((first + n) * b),
                                 out.begin() + 1))
              << dtype_name(from) << " to " << dtype_name(to) << " " << first << "+" << n;
          ASSERT_EQ(out[0], std::byte{0x77});
          ASSERT_EQ(out[n * b + 1], std::byte{0x77});
        }
      }
    }
  }
}

TEST(Cast, AnyStrides) {
  std::mt19937_64 random(13);
  const Shape shape{3, 67, 41};
  for (const auto& [from, to] : {std::pair{DType::kFloat32, DType::kBfloat16},
                                 {DType::kFloat8E5m2, DType::kInt16},
                                 {DType::kFloat64, DType::kComplex64},
                                 {DType::kInt32, DType::kInt32}}) {
    const auto a = static_cast<std::int64_t>(dtype_size(from));
    const auto b = static_cast<std::int64_t>(dtype_size(to));
    Bytes in(static_cast<std::size_t>(3 * 67 * 41 * a));
    for (auto& byte : in) byte = static_cast<std::byte>(random());
    const std::vector<std::vector<std::int64_t>> layouts{
        {67 * 41, 41, 1}, {1, 3, 3 * 67}, {67 * 41, 1, 67}, {41, 3 * 41, 1}};
    for (const auto& f : layouts) {
      for (const auto& t : layouts) {
        for (const bool backwards : {false, true}) {
          std::vector<std::int64_t> from_strides;
          std::vector<std::int64_t> to_strides;
          for (const auto s : f) from_strides.push_back(s * a);
          for (const auto s : t) to_strides.push_back(s * b);
          const std::byte* start = in.data();
          if (backwards) {
            start += from_strides[1] * (shape[1] - 1);
            from_strides[1] = -from_strides[1];
          }
          const ArrayView view{.data = start,
                               .dtype = from,
                               .element_size = static_cast<std::size_t>(a),
                               .shape = shape,
                               .strides = from_strides};
          Bytes packed(in.size());
          copy_elements(view, make_view(MutableByteView(packed), from, shape));
          const Bytes expected = cast(from, to, packed);
          Bytes out(expected.size());
          cast_elements(view, {.data = out.data(),
                               .dtype = to,
                               .element_size = static_cast<std::size_t>(b),
                               .shape = shape,
                               .strides = to_strides});
          Bytes repacked(expected.size());
          copy_elements({.data = out.data(),
                         .dtype = to,
                         .element_size = static_cast<std::size_t>(b),
                         .shape = shape,
                         .strides = to_strides},
                        make_view(MutableByteView(repacked), to, shape));
          ASSERT_EQ(repacked, expected) << dtype_name(from) << " to " << dtype_name(to)
                                        << shape_text(from_strides) << shape_text(to_strides);
        }
      }
    }
  }
}

TEST(Cast, ScalarsAndEmptyArrays) {
  const std::vector<float> in{2.5F};
  Bytes out(2);
  cast_elements(make_view(bytes_of(in), DType::kFloat32, {}),
                make_view(MutableByteView(out), DType::kBfloat16, {}));
  EXPECT_EQ(hex(out), "4020");
  cast_elements(make_view(ByteView{}, DType::kFloat32, {3, 0}),
                make_view(MutableByteView{}, DType::kBfloat16, {3, 0}));
}

TEST(Cast, EqualTypesKeepEveryBit) {
  Bytes in(256);
  for (std::size_t i = 0; i < 256; ++i) in[i] = static_cast<std::byte>(i);
  for (const DType dtype : all_types()) EXPECT_EQ(cast(dtype, dtype, in), in) << dtype_name(dtype);
}

TEST(Cast, RefusesOpaqueAndMismatches) {
  Bytes in(8);
  Bytes out(8);
  const ArrayView opaque{
      .data = in.data(), .dtype = DType::kOpaque, .element_size = 8, .shape = {1}, .strides = {8}};
  const auto code = [](const ArrayView& from, const MutableArrayView& to) {
    try {
      cast_elements(from, to);
    } catch (const Error& e) {
      return e.code();
    }
    return Code::kIo;
  };
  EXPECT_EQ(code(opaque, make_view(MutableByteView(out), DType::kInt64, {1})),
            Code::kInvalidArgument);
  EXPECT_EQ(code(make_view(ByteView(in), DType::kInt32, {2}),
                 make_view(MutableByteView(out), DType::kInt64, {1})),
            Code::kInvalidArgument);
  ArrayView wrong = make_view(ByteView(in), DType::kInt32, {2});
  wrong.element_size = 2;
  EXPECT_EQ(code(wrong, make_view(MutableByteView(out), DType::kFloat32, {2})),
            Code::kInvalidArgument);
}

// Empty ones, small ones that share a task, large ones that are cut, and strided ones.
TEST(Cast, ManyAtOnceOnAllCores) {
  const std::vector<Shape> shapes = {{0},      {},     {3},       {2, 0, 5}, {1, 1, 300'000},
                                     {70'000}, {7, 9}, {100'000}, {131'072}, {3, 65'537, 2},
                                     {131'073}};
  std::deque<Bytes> from;
  std::deque<Bytes> to;
  std::deque<Bytes> expected;
  std::vector<Cast> casts;
  std::mt19937 random(3);  // NOLINT: the same numbers each time
  for (const Shape& shape : shapes) {
    const auto n = static_cast<std::size_t>(element_count(shape));
    Bytes& in = from.emplace_back(2 * n);
    for (std::byte& byte : in) byte = static_cast<std::byte>(random());
    casts.push_back({make_view(ByteView(in), DType::kBfloat16, shape),
                     make_view(MutableByteView(to.emplace_back(4 * n)), DType::kFloat32, shape)});
    cast_elements(casts.back().from,
                  make_view(MutableByteView(expected.emplace_back(4 * n)), DType::kFloat32, shape));
  }
  Bytes& turned = to.emplace_back(to[9].size());  // transposed: dimensions of 2, 65537 and 3
  MutableArrayView view = make_view(MutableByteView(turned), DType::kFloat32, {2, 65'537, 3});
  std::swap(view.shape[0], view.shape[2]);
  std::swap(view.strides[0], view.strides[2]);
  casts.push_back({casts[9].from, view});
  Executor executor(4);
  cast_all(casts, executor);
  for (std::size_t i = 0; i < shapes.size(); ++i) EXPECT_EQ(to[i], expected[i]) << i;
  Bytes turned_back(turned.size());
  copy_elements(cairn::as_const(view),
                make_view(MutableByteView(turned_back), DType::kFloat32, shapes[9]));
  EXPECT_EQ(turned_back, expected[9]);
  cast_all({}, executor);
}

}  // namespace
}  // namespace cairn
