// metadata_text.cc -- writes `.zarray` and `zarr.json` as TensorStore does: sorted keys, no spaces,
// all members of a codec. v3 members with their default value are omitted. zarr2.cc and zarr3.cc
// draw both files.
#include <cairn/error.h>
#include <cairn/zarr/metadata/array_metadata.h>
#include <cairn/zarr/metadata/fill_text.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace cairn::inline v0::zarr {
namespace {

[[noreturn]] void unwritable(const std::string& what) {
  throw Error(Code::kUnimplemented,
              what + " can be read, but not written: TensorStore cannot read it");
}

template <class Integers>
std::string list(const Integers& values) {
  std::string text = "[";
  for (const auto value : values) {
    if (text.size() > 1) text += ',';
    text += std::to_string(value);
  }
  return text + "]";
}

const char* in_quotes(char separator) { return separator == '/' ? "\"/\"" : "\".\""; }

// ---- v2 ----

// Returns NumPy's typestr for types that NumPy has, and the name for all others.
std::string v2_dtype(const ArrayMetadata& metadata) {
  const DType dtype = metadata.dtype;
  const std::string name(dtype_name(dtype));
  if (dtype == DType::kOpaque)
    return metadata.dtype_name.starts_with('[') ? metadata.dtype_name
                                                : '"' + metadata.dtype_name + '"';
  const DTypeKind kind = dtype_kind(dtype);
  const bool small = dtype_bits(dtype) < 8 ||
                     (kind == DTypeKind::kFloat && dtype_bits(dtype) == 8) ||
                     dtype == DType::kBfloat16;
  if (small) return '"' + name + '"';
  const std::string_view letters = "biufc";
  const char letter = letters[static_cast<std::size_t>(kind)];
  const char order = metadata.element_size == 1 ? '|' : metadata.codecs.big_endian ? '>' : '<';
  return std::string("\"") + order + letter + std::to_string(metadata.element_size) + '"';
}

std::string v2_blosc(const CompressOptions& options) {
  const BloscOptions& blosc = options.blosc;
  const int shuffle = static_cast<int>(blosc.shuffle) - 1;  // -1: automatic
  return R"({"blocksize":)" + std::to_string(blosc.block_size) + R"(,"clevel":)" +
         std::to_string(options.level) + R"(,"cname":")" +
         std::string(blosc_inner_name(blosc.inner)) + R"(","id":"blosc","shuffle":)" +
         std::to_string(shuffle) + "}";
}

// Writes no `checksum` member for zstd: TensorStore does not know it, but verifies the checksum of
// any frame that has one.
std::string v2_compressor(const CodecChain& chain) {
  if (chain.steps.empty()) return "null";
  const auto* step = std::get_if<CompressStep>(&chain.steps.back());
  if (chain.steps.size() > 1 || !step) unwritable("an array with filters");
  if (step->codec == Codec::kLz4) unwritable("compressor 'lz4'");
  if (step->codec == Codec::kBlosc) return v2_blosc(step->options);
  return R"({"id":")" + std::string(codec_name(step->codec)) + R"(","level":)" +
         std::to_string(step->options.level) + "}";
}

std::string zarray_text(const ArrayMetadata& metadata) {
  const CodecChain& chain = metadata.codecs;
  return R"({"chunks":)" + list(metadata.chunk_shape) + R"(,"compressor":)" + v2_compressor(chain) +
         R"(,"dimension_separator":)" + in_quotes(metadata.keys.separator) + R"(,"dtype":)" +
         v2_dtype(metadata) + R"(,"fill_value":)" +
         (metadata.fill_is_null ? "null" : v2_fill_text(metadata)) +
         R"(,"filters":null,"order":")" + (chain.order.empty() ? "C" : "F") + R"(","shape":)" +
         list(metadata.shape) + R"(,"zarr_format":2})";
}

// ---- v3 ----

std::string named(std::string_view name, const std::string& configuration) {
  const std::string tail = R"("name":")" + std::string(name) + "\"}";
  return configuration.empty() ? "{" + tail : R"({"configuration":{)" + configuration + "}," + tail;
}

std::string endian(bool big) { return big ? R"("endian":"big")" : R"("endian":"little")"; }

std::string v3_blosc(const CompressOptions& options, std::size_t element_size) {
  const BloscOptions& blosc = options.blosc;
  const std::size_t type_size = blosc.type_size == 0 ? element_size : blosc.type_size;
  const bool bits = blosc.shuffle == BloscShuffle::kBits ||
                    (blosc.shuffle == BloscShuffle::kAuto && type_size == 1);
  const bool none = blosc.shuffle == BloscShuffle::kNone;
  std::string text = R"("blocksize":)" + std::to_string(blosc.block_size) + R"(,"clevel":)" +
                     std::to_string(options.level) + R"(,"cname":")" +
                     std::string(blosc_inner_name(blosc.inner)) + R"(","shuffle":")" +
                     (none   ? "noshuffle"
                      : bits ? "bitshuffle"
                             : "shuffle") +
                     '"';
  if (!none) text += R"(,"typesize":)" + std::to_string(type_size);
  return named("blosc", text);
}

std::string v3_step(const ByteStep& step, std::size_t element_size) {
  if (const auto* crc = std::get_if<Crc32cStep>(&step); crc && !crc->at_start)
    return named("crc32c", "");
  const auto* compress = std::get_if<CompressStep>(&step);
  if (!compress) unwritable("a codec of numcodecs");
  const std::string level = R"("level":)" + std::to_string(compress->options.level);
  switch (compress->codec) {
    case Codec::kZstd:
      return named("zstd", std::string(R"("checksum":)") +
                               (compress->options.checksum ? "true," : "false,") + level);
    case Codec::kGzip:
      return named("gzip", level);
    case Codec::kBlosc:
      return v3_blosc(compress->options, element_size);
    case Codec::kZlib:
    case Codec::kBz2:
    case Codec::kLz4:
      break;
  }
  unwritable("codec '" + std::string(codec_name(compress->codec)) + "'");
}

std::string v3_codecs(const CodecChain& chain, std::size_t element_size);

std::string v3_shard(const ShardCodec& shard, std::size_t element_size) {
  std::string text = R"("chunk_shape":)" + list(shard.chunk_shape) + R"(,"codecs":)" +
                     v3_codecs(shard.codecs, element_size) + R"(,"index_codecs":[)" +
                     named("bytes", endian(shard.index_big_endian)) +
                     (shard.index_crc32c ? "," + named("crc32c", "") : "") + "]";
  if (shard.index_at_start) text += R"(,"index_location":"start")";
  return named("sharding_indexed", text);
}

std::string v3_codecs(const CodecChain& chain, std::size_t element_size) {
  std::string text = "[";
  if (!chain.order.empty()) text += named("transpose", R"("order":)" + list(chain.order)) + ",";
  text += chain.shard ? v3_shard(*chain.shard, element_size)
                      : named("bytes", element_size > 1 ? endian(chain.big_endian) : "");
  for (const ByteStep& step : chain.steps) text += "," + v3_step(step, element_size);
  return text + "]";
}

std::string v3_keys(const ChunkKeys& keys) {
  const char usual = keys.c_prefix ? '/' : '.';
  const std::string separator =
      keys.separator == usual ? "" : std::string(R"("separator":)") + in_quotes(keys.separator);
  return named(keys.c_prefix ? "default" : "v2", separator);
}

Json sorted(const Json& json) {
  if (const JsonArray* array = json.as_array()) {
    JsonArray items;
    for (const Json& item : *array) items.push_back(sorted(item));
    return items;
  }
  const JsonObject* object = json.as_object();
  if (!object) return json;
  JsonObject members;
  for (const auto& [key, value] : *object) members.emplace_back(key, sorted(value));
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return members;
}

// Optional members: "" if they are empty, else the member and a comma.
std::string attributes_text(const Json& attributes) {
  const JsonObject* members = attributes.as_object();
  return members && !members->empty() ? R"("attributes":)" + to_text(sorted(attributes)) + "," : "";
}

std::string dimension_names_text(const ArrayMetadata& metadata) {
  Json names = JsonArray();
  bool any = false;
  for (const auto& name : metadata.dimension_names) {
    names.push_back(name ? Json(*name) : Json());
    any = any || name;
  }
  return any ? R"("dimension_names":)" + to_text(names) + "," : "";
}

std::string zarr_json_text(const ArrayMetadata& metadata) {
  if (metadata.dtype == DType::kOpaque) unwritable("data_type " + metadata.dtype_name);
  return "{" + attributes_text(metadata.attributes) + R"("chunk_grid":)" +
         named("regular", R"("chunk_shape":)" + list(metadata.chunk_shape)) +
         R"(,"chunk_key_encoding":)" + v3_keys(metadata.keys) + R"(,"codecs":)" +
         v3_codecs(metadata.codecs, metadata.element_size) + R"(,"data_type":")" +
         std::string(dtype_name(metadata.dtype)) + R"(",)" + dimension_names_text(metadata) +
         R"("fill_value":)" + v3_fill_text(metadata) + R"(,"node_type":"array","shape":)" +
         list(metadata.shape) + R"(,"zarr_format":3})";
}

}  // namespace

std::string metadata_text(const ArrayMetadata& metadata) {
  return metadata.zarr_format == 3 ? zarr_json_text(metadata) : zarray_text(metadata);
}

}  // namespace cairn::inline v0::zarr
