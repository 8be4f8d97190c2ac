// fill_value.cc -- parses JSON fill values of Zarr v2 and v3 to the bytes of one element.
//
//            v2                                            v3
//   bool     true, false; also a number, 0 is false        the same; null is false
//   integer  5, 5.0                                        5, 5.0
//   float    1.5, "NaN", "Infinity", "-Infinity", "1.5"    1.5, "NaN", "Infinity", "-Infinity",
//                                                          "0x7fc00001" (the bits)
//   float4   also base64 of the byte                       as float
//   complex  [re, im] of those, base64 of the element      [re, im] of those
//   others   base64; text for <U; count or "NaT" for M8    the same; [1, 2, ...] for the bytes of
//                                                          r<N>
//   strings  text; an integer stands for its digits        the same
//   bytes    base64; [1, 2, ...] for the bytes             the same
#include <cairn/zarr/metadata/fill_value.h>

#include <cairn/array/box.h>
#include <cairn/base/base64.h>
#include <cairn/base/byte_order.h>
#include <cairn/base/utf8.h>
#include <cairn/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::zarr {
namespace {

enum class Format : std::uint8_t { kV2, kV3 };

[[noreturn]] void bad_fill(const Json& fill, const ElementType& type) {
  throw Error(Code::kDataLoss, "fill_value " + to_text(fill) + " is not a value of " + type.name);
}

template <class T>
Bytes bytes_of(T value) {
  Bytes out(sizeof(T));
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

// Returns the low `size` bytes, in the machine's order.
Bytes low_bytes(std::uint64_t value, std::size_t size) {
  Bytes out = bytes_of(value);
  if (kBigEndianMachine)
    std::rotate(out.begin(), out.end() - static_cast<std::ptrdiff_t>(size), out.end());
  out.resize(size);
  return out;
}

// ---- text encodings ----

// Takes any padding, as zarr-python takes too much of it.
std::optional<Bytes> decode_any_padding(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  return decode_base64(text, Base64::kStandard);
}

// Encodes (valid) UTF-8 as UTF-32, four bytes a code point, in the byte order of the type name:
// "<U4" or ">U4".
Bytes utf32(std::string_view text, bool big_endian) {
  Bytes out;
  while (!text.empty()) {
    const Utf8Character c = decode_utf8(text);
    const Bytes unit =
        bytes_of(big_endian == kBigEndianMachine ? c.code : __builtin_bswap32(c.code));
    out.insert(out.end(), unit.begin(), unit.end());
    text.remove_prefix(c.length);
  }
  return out;
}

// ---- numbers ----

// zarr-python takes the truth of any JSON value. Cairn refuses strings, lists and objects: "false"
// would be true.
Bytes bool_fill(const Json& fill, const ElementType& type) {
  if (fill.is_null()) return low_bytes(0, 1);
  if (const bool* value = fill.as_bool()) return low_bytes(*value ? 1 : 0, 1);
  const auto number = fill.as_double();
  if (!number) bad_fill(fill, type);
  return low_bytes(*number != 0 ? 1 : 0, 1);
}

Bytes integer_fill(const Json& fill, const ElementType& type) {
  const int bits = dtype_bits(type.dtype);
  if (dtype_kind(type.dtype) == DTypeKind::kUint) {
    const auto value = fill.as_uint64(true);
    if (!value || (bits < 64 && (*value >> static_cast<unsigned>(bits)) != 0)) bad_fill(fill, type);
    return low_bytes(*value, type.size);
  }
  const auto value = fill.as_int64(true);
  const std::int64_t limit =
      std::numeric_limits<std::int64_t>::max() >> static_cast<unsigned>(64 - bits);
  if (!value || *value > limit || *value < -limit - 1) bad_fill(fill, type);
  return low_bytes(static_cast<std::uint64_t>(*value), type.size);
}

// Returns the bits that "NaN" stands for. They are not always those of a converted float64 NaN.
std::uint64_t default_nan(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x7ff8000000000000U;
    case DType::kFloat32:
      return 0x7fc00000U;
    case DType::kFloat16:
      return 0x7e00U;
    case DType::kBfloat16:
      return 0x7fc0U;
    case DType::kFloat8E5m2:
      return 0x7eU;
    case DType::kFloat8E4m3fn:
      return 0x7fU;
    case DType::kFloat8E3m4:
      return 0x78U;
    case DType::kFloat8E4m3:
      return 0x7cU;
    case DType::kFloat8E8m0fnu:
      return 0xffU;
    case DType::kFloat4E2m1fn:
      return 0x08U;  // the type has no NaN: minus zero
    default:
      return 0x80U;  // the fnuz types
  }
}

// Returns the byte that TensorStore writes for a number. TensorStore is the only other library that
// stores this type. It writes a power of two with a bias of 63, half of the type's own, and ignores
// the sign. Cairn does the same, so that both agree on the bytes of missing chunks.
Bytes e8m0_from(double value) {
  if (value == 0) return low_bytes(0, 1);
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const int biased = exponent - 1 + 63 + (fraction >= 0.75 ? 1 : 0);
  if (!std::isfinite(value) || biased > 254) return low_bytes(0xff, 1);
  return low_bytes(static_cast<std::uint64_t>(std::max(biased, 0)), 1);
}

Bytes float_from(double value, DType dtype, std::size_t size) {
  if (dtype == DType::kFloat8E8m0fnu) return e8m0_from(value);
  if (std::isnan(value)) return low_bytes(default_nan(dtype), size);
  Bytes out(size);
  cast_elements(make_view(std::as_bytes(std::span(&value, 1)), DType::kFloat64, {}),
                make_view(MutableByteView(out), dtype, {}));
  return out;
}

std::optional<double> parse_decimal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Parses "0x" and exactly as many digits as the type has, most significant first.
std::optional<Bytes> parse_hex_bits(std::string_view text, std::size_t size) {
  if (!text.starts_with("0x") || text.size() != 2 + 2 * size) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return low_bytes(value, size);
}

Bytes float_fill(const Json& fill, DType dtype, Format format, const ElementType& type) {
  const std::size_t size = dtype_size(dtype);
  if (const auto number = fill.as_double()) return float_from(*number, dtype, size);
  const std::string* text = fill.as_string();
  if (!text) bad_fill(fill, type);
  if (*text == "NaN") return low_bytes(default_nan(dtype), size);
  if (*text == "Infinity") return float_from(std::numeric_limits<double>::infinity(), dtype, size);
  if (*text == "-Infinity")
    return float_from(-std::numeric_limits<double>::infinity(), dtype, size);
  if (format == Format::kV3) {
    if (auto bits = parse_hex_bits(*text, size)) return *std::move(bits);
  } else if (const auto number = parse_decimal(*text)) {
    return float_from(*number, dtype, size);
  }
  if (dtype == DType::kFloat4E2m1fn && format == Format::kV2)
    if (auto bytes = decode_any_padding(*text); bytes && bytes->size() == 1)
      return *std::move(bytes);
  bad_fill(fill, type);
}

Bytes complex_fill(const Json& fill, Format format, const ElementType& type) {
  const DType part = type.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  if (const auto* parts = fill.as_array(); parts && parts->size() == 2) {
    Bytes out = float_fill((*parts)[0], part, format, type);
    const Bytes imaginary = float_fill((*parts)[1], part, format, type);
    out.insert(out.end(), imaginary.begin(), imaginary.end());
    return out;
  }
  if (format == Format::kV3) bad_fill(fill, type);
  if (fill.is_number()) {
    Bytes out = float_fill(fill, part, format, type);
    out.resize(type.size);
    return out;
  }
  auto bytes = fill.as_string() ? decode_any_padding(*fill.as_string()) : std::nullopt;
  if (!bytes || bytes->size() != type.size) bad_fill(fill, type);
  if (type.big_endian != kBigEndianMachine) {
    const auto half = static_cast<std::ptrdiff_t>(type.size / 2);
    std::reverse(bytes->begin(), bytes->begin() + half);
    std::reverse(bytes->begin() + half, bytes->end());
  }
  return *std::move(bytes);
}

// ---- elements Cairn does not interpret ----

Bytes time_fill(const Json& fill, const ElementType& type) {
  const bool not_a_time = fill.as_string() && *fill.as_string() == "NaT";
  const auto count = not_a_time ? std::numeric_limits<std::int64_t>::min() : fill.as_int64(true);
  if (!count) bad_fill(fill, type);
  const auto bits = static_cast<std::uint64_t>(*count);
  const bool is_big_endian = type.name[0] == '>';
  return bytes_of(is_big_endian == kBigEndianMachine ? bits : __builtin_bswap64(bits));
}

// One number for each byte: v3 raw bits and bytes. nullopt for numbers that are not bytes.
std::optional<Bytes> byte_list(const JsonArray& list) {
  Bytes out;
  for (const Json& item : list) {
    const auto byte = item.as_uint64();
    if (!byte || *byte > 255) return std::nullopt;
    out.push_back(static_cast<std::byte>(*byte));
  }
  return out;
}

Bytes opaque_fill(const Json& fill, const ElementType& type) {
  const char kind = type.name.size() > 1 ? type.name[1] : '\0';
  if (kind == 'M' || kind == 'm') return time_fill(fill, type);
  // older zarr-python versions wrote 0 for "no fill value"
  if (fill.as_int64() == std::int64_t{0}) return Bytes(type.size);
  if (const auto* list = fill.as_array()) {
    auto bytes = byte_list(*list);
    if (!bytes || bytes->size() != type.size) bad_fill(fill, type);
    return *std::move(bytes);
  }
  const std::string* text = fill.as_string();
  if (!text) bad_fill(fill, type);
  std::optional<Bytes> bytes =
      kind == 'U' ? utf32(*text, type.name[0] == '>') : decode_any_padding(*text);
  if (!bytes || bytes->size() > type.size) bad_fill(fill, type);
  // A string may be shorter than its element. Other values have the full size, or are "" for all
  // zeros.
  const bool string = kind == 'U' || kind == 'S' || kind == 'a';
  if (!string && !bytes->empty() && bytes->size() != type.size) bad_fill(fill, type);
  bytes->resize(type.size);
  return *std::move(bytes);
}

Bytes parse_fill(const Json& fill, const ElementType& type, Format format) {
  switch (dtype_kind(type.dtype)) {
    case DTypeKind::kBool:
      return bool_fill(fill, type);
    case DTypeKind::kInt:
    case DTypeKind::kUint:
      return integer_fill(fill, type);
    case DTypeKind::kFloat:
      return float_fill(fill, type.dtype, format, type);
    case DTypeKind::kComplex:
      return complex_fill(fill, format, type);
    case DTypeKind::kOpaque:
      return opaque_fill(fill, type);
  }
  bad_fill(fill, type);
}

}  // namespace

Bytes parse_v2_fill(const Json* fill, const ElementType& type) {
  if (type.size == 0 || !fill || fill->is_null()) return Bytes(type.size);
  return parse_fill(*fill, type, Format::kV2);
}

Bytes parse_v3_fill(const Json& fill, const ElementType& type) {
  return type.size == 0 ? Bytes() : parse_fill(fill, type, Format::kV3);
}

Bytes parse_object_fill(const Json& fill, ObjectCodec codec) {
  if (codec != ObjectCodec::kVlenUtf8 && codec != ObjectCodec::kVlenBytes) return {};
  const std::string* text = fill.as_string();
  std::optional<Bytes> bytes;
  if (codec == ObjectCodec::kVlenBytes) {
    if (text != nullptr) bytes = decode_any_padding(*text);
    if (const auto* list = fill.as_array()) bytes = byte_list(*list);
  } else {
    // zarr-python 2 wrote integers, and zarr-python 3 reads them as their digits
    const std::string digits = fill.as_int64() ? to_text(fill) : "";
    const std::string_view value = text != nullptr ? *text : digits;
    if (text != nullptr ? valid_utf8(value) : !value.empty())
      bytes.emplace(as_bytes(value).begin(), as_bytes(value).end());
  }
  if (bytes) return *std::move(bytes);
  throw Error(Code::kDataLoss,
              "fill_value " + to_text(fill) + " is not " +
                  (codec == ObjectCodec::kVlenUtf8 ? "a string" : "a byte string"));
}

}  // namespace cairn::inline v0::zarr
