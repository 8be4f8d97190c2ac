// numcodecs.cc -- converts the configurations of numcodecs' codecs to steps of a chain.
#include <cairn/zarr/codec/numcodecs.h>

#include <cairn/error.h>
#include <cairn/zarr/codec/compressor_config.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace cairn::inline v0::zarr {
namespace {

// A codec's id, its configuration and the element type, for the parsers below.
struct NumcodecsCodec {
  std::string_view id;
  const Json& config;
  const std::optional<DType>& element;

  [[nodiscard]] const Json* find(std::string_view member) const {
    const Json* value = config.find(member);
    return value && !value->is_null() ? value : nullptr;
  }
};

[[noreturn]] void bad_config(const NumcodecsCodec& codec, std::string_view member,
                             const Json* found) {
  throw Error(Code::kDataLoss,
              "codec '" + std::string(codec.id) + "': " +
                  (found ? std::string(member) + " " + to_text(*found) + " is not valid"
                         : "lacks '" + std::string(member) + "' in its configuration"));
}

[[noreturn]] void not_supported(const NumcodecsCodec& codec, const std::string& why) {
  throw Error(Code::kUnimplemented, "codec '" + std::string(codec.id) + "' is not supported" + why);
}

// ---- element types: "<f4", "|u1", "f4" or "float32"; without a byte-order mark, the machine's
// order, little-endian ----

std::optional<DType> numpy_number(std::string_view name) {
  constexpr DType kNumbers[] = {
      DType::kBool,    DType::kInt8,    DType::kInt16,     DType::kInt32,     DType::kInt64,
      DType::kUint8,   DType::kUint16,  DType::kUint32,    DType::kUint64,    DType::kFloat16,
      DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};
  for (const DType dtype : kNumbers) {
    const std::string_view full = dtype_name(dtype);
    const char kind = dtype == DType::kBool ? 'b' : full[0];
    if (name == full || name == kind + std::to_string(dtype_size(dtype))) return dtype;
  }
  return std::nullopt;
}

NumberType number_type(const NumcodecsCodec& codec, std::string_view member, const Json& value) {
  const std::string* text = value.as_string();
  if (!text || text->empty()) bad_config(codec, member, &value);
  std::string_view name = *text;
  const char order = name[0];
  if (order == '<' || order == '>' || order == '|' || order == '=') name.remove_prefix(1);
  const auto dtype = numpy_number(name);
  if (!dtype) not_supported(codec, " for elements of type " + to_text(value));
  return {.dtype = *dtype, .big_endian = order == '>' && dtype_size(*dtype) > 1};
}

// Return the element type outside the codec and inside it.
NumberType decoded_type(const NumcodecsCodec& codec, std::string_view member) {
  if (const Json* value = codec.find(member)) return number_type(codec, member, *value);
  if (!codec.element) bad_config(codec, member, nullptr);
  return number_type(codec, member, Json(dtype_name(*codec.element)));
}

NumberType stored_type(const NumcodecsCodec& codec, const NumberType& decoded) {
  const Json* value = codec.find("astype");
  return value ? number_type(codec, "astype", *value) : decoded;
}

void refuse_kinds(const NumcodecsCodec& codec, const NumberType& type,
                  std::initializer_list<DTypeKind> kinds) {
  if (std::find(kinds.begin(), kinds.end(), dtype_kind(type.dtype)) != kinds.end())
    not_supported(codec, " for elements of type " + std::string(dtype_name(type.dtype)));
}

// ---- codecs ----

ByteStep parse_delta(const NumcodecsCodec& codec) {
  const NumberType decoded = decoded_type(codec, "dtype");
  const NumberType stored = stored_type(codec, decoded);
  refuse_kinds(codec, decoded, {DTypeKind::kBool, DTypeKind::kComplex});
  refuse_kinds(codec, stored, {DTypeKind::kBool, DTypeKind::kComplex});
  // NumPy does not add floats into integers, so the writer of such an array cannot read it either.
  if (dtype_kind(stored.dtype) == DTypeKind::kFloat &&
      dtype_kind(decoded.dtype) != DTypeKind::kFloat)
    not_supported(codec, " for " + std::string(dtype_name(decoded.dtype)) + " stored as " +
                             std::string(dtype_name(stored.dtype)));
  return DeltaStep{.decoded = decoded, .stored = stored};
}

double number(const NumcodecsCodec& codec, std::string_view member) {
  const Json* value = codec.find(member);
  const auto x = value ? value->as_double() : std::nullopt;
  if (!x) bad_config(codec, member, value);
  return *x;
}

ByteStep parse_scale(const NumcodecsCodec& codec) {
  const NumberType decoded = decoded_type(codec, "dtype");
  const NumberType stored = stored_type(codec, decoded);
  refuse_kinds(codec, decoded, {DTypeKind::kComplex});
  refuse_kinds(codec, stored, {DTypeKind::kBool, DTypeKind::kComplex});
  if (stored.dtype == DType::kFloat16) not_supported(codec, " for elements stored as float16");
  return ScaleStep{.decoded = decoded,
                   .stored = stored,
                   .scale = number(codec, "scale"),
                   .offset = number(codec, "offset")};
}

ByteStep parse_quantize(const NumcodecsCodec& codec) {
  const NumberType decoded = decoded_type(codec, "dtype");
  return CastStep{.decoded = decoded, .stored = stored_type(codec, decoded)};
}

ByteStep parse_astype(const NumcodecsCodec& codec) {
  const Json* stored = codec.find("encode_dtype");
  if (!stored) bad_config(codec, "encode_dtype", stored);
  return CastStep{.decoded = decoded_type(codec, "decode_dtype"),
                  .stored = number_type(codec, "encode_dtype", *stored)};
}

// numcodecs does not shuffle if the size is 1 or less.
ByteStep parse_shuffle(const NumcodecsCodec& codec) {
  const Json* size = codec.find("elementsize");
  if (size == nullptr)
    return ShuffleStep{.element_size = codec.element ? dtype_size(*codec.element) : 4};
  const auto n = size->as_int64();
  if (!n || *n > 65536) bad_config(codec, "elementsize", size);
  return ShuffleStep{.element_size = *n > 1 ? static_cast<std::size_t>(*n) : 1};
}

bool at_start(const NumcodecsCodec& codec, bool otherwise) {
  const Json* location = codec.find("location");
  if (!location) return otherwise;
  const std::string* text = location->as_string();
  if (!text || (*text != "start" && *text != "end")) bad_config(codec, "location", location);
  return *text == "start";
}

ByteStep parse_lookup3(const NumcodecsCodec& codec) {
  if (codec.find("prefix")) not_supported(codec, " with a prefix");
  const Json* seed = codec.find("initval");
  const auto value = seed ? seed->as_uint64() : std::optional<std::uint64_t>(0);
  if (!value || *value > 0xffffffffU) bad_config(codec, "initval", seed);
  return ChecksumStep{
      .kind = Checksum::kLookup3, .at_start = false, .seed = static_cast<std::uint32_t>(*value)};
}

std::string why_not(std::string_view id) {
  if (id == "pickle") return ": reading a pickle would run a program";
  if (id == "base64") return ": decode it with numcodecs";
  if (object_codec(id) != ObjectCodec::kNone || id == "categorize")
    return ": its elements have no fixed size";
  if (id == "lzma" || id == "zfpy" || id == "pcodec" || id == "lzf")
    return ": Cairn has no decoder for it";
  return "";
}

}  // namespace

bool is_array_filter(std::string_view id) {
  return id == "delta" || id == "fixedscaleoffset" || id == "quantize" || id == "bitround" ||
         id == "astype" || id == "packbits";
}

bool flattens(std::string_view id) {
  return id == "delta" || id == "fixedscaleoffset" || id == "packbits";
}

ObjectCodec object_codec(std::string_view id) {
  constexpr std::string_view kOthers[] = {"vlen-array", "json2",   "json",
                                          "msgpack2",   "msgpack", "pickle"};
  if (id == "vlen-utf8") return ObjectCodec::kVlenUtf8;
  if (id == "vlen-bytes") return ObjectCodec::kVlenBytes;
  return std::find(std::begin(kOthers), std::end(kOthers), id) != std::end(kOthers)
             ? ObjectCodec::kOther
             : ObjectCodec::kNone;
}

std::vector<ByteStep> parse_numcodecs(std::string_view id, const Json& config,
                                      const std::optional<DType>& element) {
  const NumcodecsCodec codec{.id = id, .config = config, .element = element};
  if (const auto compressor = parse_compressor(id, config)) return {*compressor};
  if (id == "crc32c") return {Crc32cStep{.at_start = at_start(codec, false)}};
  if (id == "crc32")
    return {ChecksumStep{.kind = Checksum::kCrc32, .at_start = at_start(codec, true)}};
  if (id == "adler32")
    return {ChecksumStep{.kind = Checksum::kAdler32, .at_start = at_start(codec, true)}};
  if (id == "fletcher32") return {ChecksumStep{.kind = Checksum::kFletcher32}};
  if (id == "jenkins_lookup3") return {parse_lookup3(codec)};
  if (id == "delta") return {parse_delta(codec)};
  if (id == "shuffle") return {parse_shuffle(codec)};
  if (id == "fixedscaleoffset") return {parse_scale(codec)};
  if (id == "quantize") return {parse_quantize(codec)};
  if (id == "astype") return {parse_astype(codec)};
  if (id == "packbits") return {PackBitsStep{}};
  if (id == "bitround") return {};  // rounded when written: there is nothing to undo
  not_supported(codec, why_not(id));
}

}  // namespace cairn::inline v0::zarr
