// metadata_json.cc -- pieces of array metadata that both formats share.
#include <cairn/error.h>
#include <cairn/zarr/element_type.h>
#include <cairn/zarr/metadata_json.h>

#include <string>

namespace cairn::zarr {
namespace {

constexpr std::size_t kMaxRank = 64;                               // NumPy's limit; TensorStore's is 32
constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 56U;  // leaves room for sums without overflow checks
constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 62U;

[[noreturn]] void bad_member(std::string_view member, const Json& found, std::string_view expected) {
  throw Error(Code::kDataLoss, std::string(member) + ": " + to_text(found) + " is not " + std::string(expected));
}

std::optional<ByteStep> parse_delta(const Json& config) {
  const Json* dtype = config.find("dtype");
  const Json* astype = config.find("astype");
  const ElementType type = parse_v2_dtype(dtype ? *dtype : Json());
  const DTypeKind kind = dtype_kind(type.dtype);
  const bool integer = (kind == DTypeKind::kInt || kind == DTypeKind::kUint) && dtype_bits(type.dtype) >= 8;
  if (!integer || (astype && !astype->is_null() && !(*astype == *dtype)))
    throw Error(Code::kUnimplemented, "codec delta is supported for integers stored as the same type, not for " + to_text(config));
  return DeltaStep{.element_size = type.size, .big_endian = type.big_endian};
}

std::optional<ByteStep> parse_shuffle(const Json& config) {
  const Json* size = config.find("elementsize");
  const auto n = size ? size->as_uint64() : std::optional<std::uint64_t>(4);
  if (!n || *n == 0 || *n > 65536) bad_member("codec shuffle", config, "usable: elementsize must be a positive integer");
  return ShuffleStep{.element_size = *n};
}

std::optional<ByteStep> parse_crc32c(const Json& config) {
  const Json* location = config.find("location");
  if (!location || location->is_null()) return Crc32cStep{};
  const std::string* text = location->as_string();
  if (!text || (*text != "start" && *text != "end")) bad_member("codec crc32c: location", *location, "\"start\" or \"end\"");
  return Crc32cStep{.at_start = *text == "start"};
}

}  // namespace

const Json& required_member(const Json& object, std::string_view member) {
  if (const Json* value = object.find(member)) return *value;
  throw Error(Code::kDataLoss, "required member '" + std::string(member) + "' is missing");
}

const std::string& required_text(const Json& object, std::string_view member) {
  const Json& value = required_member(object, member);
  if (const auto* text = value.as_string()) return *text;
  bad_member(member, value, "a string");
}

Shape parse_extents(const Json& value, std::string_view member, std::int64_t minimum) {
  const JsonArray* items = value.as_array();
  if (!items) bad_member(member, value, "an array of integers");
  if (items->size() > kMaxRank)
    throw Error(Code::kUnimplemented,
                std::string(member) + ": " + std::to_string(items->size()) + " dimensions are more than " + std::to_string(kMaxRank));
  Shape extents;
  for (const Json& item : *items) {
    const auto extent = item.as_int64(true);
    if (!extent || *extent < minimum) bad_member(member, item, "an integer of at least " + std::to_string(minimum));
    extents.push_back(*extent);
  }
  return extents;
}

std::uint64_t chunk_bytes(const Shape& chunk_shape, std::size_t element_size) {
  std::uint64_t bytes = element_size;
  for (const std::int64_t extent : chunk_shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) || bytes > kMaxChunkBytes)
      throw Error(Code::kDataLoss, "chunk shape " + shape_text(chunk_shape) + " is impossibly large");
  return bytes;
}

void check_array_size(const Shape& shape, std::size_t element_size) {
  std::uint64_t bytes = element_size;
  for (const std::int64_t extent : shape)
    if (extent != 0 && (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) || bytes > kMaxArrayBytes))
      throw Error(Code::kDataLoss, "shape " + shape_text(shape) + " is impossibly large");
}

std::optional<ByteStep> parse_numcodecs(std::string_view id, const Json& config) {
  // Levels and the like matter to the writer only: the encoded bytes describe themselves.
  if (id == "zstd") return CompressStep{Codec::kZstd};
  if (id == "blosc") return CompressStep{Codec::kBlosc};
  if (id == "gzip") return CompressStep{Codec::kGzip};
  if (id == "zlib") return CompressStep{Codec::kZlib};
  if (id == "bz2") return CompressStep{Codec::kBz2};
  if (id == "lz4") return CompressStep{Codec::kLz4};
  if (id == "delta") return parse_delta(config);
  if (id == "shuffle") return parse_shuffle(config);
  if (id == "crc32c") return parse_crc32c(config);
  return std::nullopt;
}

}  // namespace cairn::zarr
