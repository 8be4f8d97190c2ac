// fill_text.cc -- writes the bytes of one element as JSON. Floats are numbers with a fraction, or
// "NaN", "Infinity", "-Infinity". v3 writes a NaN with unusual bits as hexadecimal: "0x7fc00001".
#include <cairn/zarr/metadata/fill_text.h>

#include <cairn/array/box.h>
#include <cairn/base/base64.h>
#include <cairn/base/byte_order.h>
#include <cairn/error.h>
#include <cairn/zarr/metadata/fill_value.h>

#include <cmath>
#include <cstring>

namespace cairn::inline v0::zarr {
namespace {

std::uint64_t bits_of(ByteView element) {
  std::uint64_t bits = 0;
  const std::size_t at = kBigEndianMachine ? sizeof(bits) - element.size() : 0;
  std::memcpy(reinterpret_cast<std::byte*>(&bits) + at, element.data(), element.size());
  return bits;
}

std::string hex_text(ByteView element) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "\"0x";
  const std::uint64_t bits = bits_of(element);
  for (std::size_t i = 2 * element.size(); i-- > 0;) text += kDigits[bits >> 4 * i & 15U];
  return text + '"';
}

std::string base64_text(ByteView bytes) {
  return '"' + encode_base64(bytes, Base64::kStandard) + '"';
}

double value_of(ByteView element, DType dtype) {
  // TensorStore prints this type with a bias of 63, half of the type's own, and takes the first bit
  // for a sign (fill_value.cc).
  if (dtype == DType::kFloat8E8m0fnu) {
    const int exponent = std::to_integer<int>(element[0]);
    if (exponent == 0 || exponent == 255) return exponent == 0 ? 0.0 : std::nan("");
    return std::ldexp(exponent < 128 ? 1.0 : -1.0, exponent - 63);
  }
  double value = 0;
  cast_elements(make_view(element, dtype, {}),
                make_view(std::as_writable_bytes(std::span(&value, 1)), DType::kFloat64, {}));
  return value;
}

// Returns whether the element has the bits that "NaN" is parsed as.
bool usual_nan(ByteView element, DType dtype) {
  const ElementType type{
      .dtype = dtype, .size = element.size(), .name = std::string(dtype_name(dtype))};
  const Bytes usual = parse_v3_fill(Json("NaN"), type);
  return bits_of(usual) == bits_of(element);
}

std::string float_text(ByteView element, DType dtype, bool hex) {
  const double value = value_of(element, dtype);
  if (std::isnan(value)) return hex && !usual_nan(element, dtype) ? hex_text(element) : "\"NaN\"";
  if (std::isinf(value)) return value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  return to_text(Json(value));
}

std::string integer_text(ByteView element, DType dtype) {
  const auto unused = static_cast<unsigned>(64 - dtype_bits(dtype));
  const std::uint64_t high = bits_of(element) << unused;
  if (dtype_kind(dtype) == DTypeKind::kUint) return std::to_string(high >> unused);
  return std::to_string(static_cast<std::int64_t>(high) >> unused);
}

std::string fill_text(const ArrayMetadata& metadata, bool hex) {
  const ByteView element = metadata.fill_value;
  switch (dtype_kind(metadata.dtype)) {
    case DTypeKind::kBool:
      return element[0] == std::byte{0} ? "false" : "true";
    case DTypeKind::kInt:
    case DTypeKind::kUint:
      return integer_text(element, metadata.dtype);
    case DTypeKind::kFloat:
      return float_text(element, metadata.dtype, hex);
    case DTypeKind::kComplex: {
      const DType part = metadata.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
      const std::size_t half = element.size() / 2;
      return "[" + float_text(element.first(half), part, hex) + "," +
             float_text(element.subspan(half), part, hex) + "]";
    }
    case DTypeKind::kOpaque:
      break;
  }
  return base64_text(element);
}

}  // namespace

std::string v2_fill_text(const ArrayMetadata& metadata) {
  // TensorStore stores this type as the byte in base64; it does not accept a number.
  if (metadata.dtype == DType::kFloat4E2m1fn) return base64_text(metadata.fill_value);
  return fill_text(metadata, false);
}

std::string v3_fill_text(const ArrayMetadata& metadata) { return fill_text(metadata, true); }

}  // namespace cairn::inline v0::zarr
