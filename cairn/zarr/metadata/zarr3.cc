// zarr3.cc -- parses `zarr.json`, the metadata of a Zarr v3 array.
//
//   {"chunk_grid":{"configuration":{"chunk_shape":[32,64]},"name":"regular"},
//    "chunk_key_encoding":{"name":"default"},
//    "codecs":[{"configuration":{"endian":"little"},"name":"bytes"},
//              {"configuration":{"level":3},"name":"zstd"}],
//    "data_type":"float32","fill_value":0.0,"node_type":"array","shape":[96,64],"zarr_format":3}
//
// These eight members are required; attributes, dimension_names and storage_transformers ([]) are
// optional. The parser refuses any other member unless it is null or an object with
// "must_understand": false.
#include <cairn/error.h>
#include <cairn/zarr/codec/numcodecs.h>
#include <cairn/zarr/metadata/array_metadata.h>
#include <cairn/zarr/metadata/element_type.h>
#include <cairn/zarr/metadata/fill_value.h>
#include <cairn/zarr/metadata/metadata_json.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

constexpr int kMaxShardDepth = 8;  // every level costs a read; real arrays nest at most two

// ---- named extensions: {"name": ..., "configuration": {...}}, or only the name if there is
// nothing to configure ----

struct Extension {
  std::string_view name;
  const Json* configuration = nullptr;
  [[nodiscard]] const Json* find(std::string_view member) const {
    return configuration ? configuration->find(member) : nullptr;
  }
};

Extension parse_extension(const Json& value, std::string_view member) {
  if (const auto* name = value.as_string()) return {.name = *name, .configuration = nullptr};
  const Json* name = value.find("name");
  if (!name || !name->as_string())
    throw Error(Code::kDataLoss, std::string(member) + ": " + to_text(value) + " has no name");
  const Json* configuration = value.find("configuration");
  if (configuration && !configuration->as_object())
    throw Error(Code::kDataLoss, std::string(member) + " '" + *name->as_string() +
                                     "': configuration is " +
                                     std::string(configuration->type_text()) + ", not an object");
  return {.name = *name->as_string(), .configuration = configuration};
}

// An unknown configuration member may change the meaning of the bytes, so the parser refuses it.
void allow_only(const Extension& extension, std::initializer_list<std::string_view> known) {
  if (!extension.configuration) return;
  for (const auto& [key, value] : *extension.configuration->as_object())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw Error(Code::kUnimplemented, "'" + std::string(extension.name) +
                                            "': configuration member '" + key +
                                            "' is not supported");
}

const Json& required(const Extension& extension, std::string_view member) {
  if (const Json* value = extension.find(member)) return *value;
  throw Error(Code::kDataLoss, "'" + std::string(extension.name) + "' lacks '" +
                                   std::string(member) + "' in its configuration");
}

// Parses a string that has one of two values. Returns true for the second.
bool second_of(const Json& value, std::string_view what, std::string_view first,
               std::string_view second) {
  const std::string* text = value.as_string();
  if (text && *text == first) return false;
  if (text && *text == second) return true;
  throw Error(Code::kDataLoss, std::string(what) + ": " + to_text(value) + ", expected \"" +
                                   std::string(first) + "\" or \"" + std::string(second) + "\"");
}

// ---- codecs ----

CodecChain parse_codecs(const Json& list, Shape chunk_shape, const ElementType& type, int depth);

bool parse_endian(const Extension& codec, bool required_here) {
  allow_only(codec, {"endian"});
  const Json* endian = codec.find("endian");
  if (endian && !endian->is_null())
    return second_of(*endian, "codec 'bytes': endian", "little", "big");
  if (required_here)
    throw Error(Code::kDataLoss,
                "codec 'bytes': endian is missing, but elements have several bytes");
  return false;
}

void parse_bytes(const Extension& codec, const ElementType& type, CodecChain& chain) {
  const bool big = parse_endian(codec, type.needs_endian);
  // Opaque elements are returned as stored. A name that starts with '|' says that they have no byte
  // order.
  if (big && type.dtype == DType::kOpaque && !type.name.starts_with('|'))
    throw Error(Code::kUnimplemented,
                "big-endian elements of type " + type.name + " are not supported");
  chain.set_order(big, type.dtype);
}

// For any input, the result is a permutation or an error.
std::vector<std::size_t> parse_order(const Json& order, std::size_t rank) {
  std::vector<std::size_t> out(rank);
  for (std::size_t d = 0; d < rank; ++d) out[d] = d;
  if (order.as_string()) {
    if (second_of(order, "codec 'transpose': order", "C", "F"))
      std::reverse(out.begin(), out.end());
    return out;
  }
  const Shape given = parse_extents(order, "codec 'transpose': order", 0);
  std::vector<bool> seen(rank, false);
  if (given.size() != rank)
    throw Error(Code::kDataLoss, "codec 'transpose': order " + to_text(order) +
                                     " does not match array rank " + std::to_string(rank));
  for (std::size_t d = 0; d < rank; ++d) {
    const auto from = static_cast<std::size_t>(given[d]);
    if (from >= rank || seen[from])
      throw Error(Code::kDataLoss, "codec 'transpose': order " + to_text(order) +
                                       " is not a permutation of the dimensions");
    seen[from] = true;
    out[d] = from;
  }
  return out;
}

// Combines several transposes in a row into one.
void parse_transpose(const Extension& codec, CodecChain& chain) {
  allow_only(codec, {"order"});
  const auto order = parse_order(required(codec, "order"), chain.shape.size());
  std::vector<std::size_t> combined(order.size());
  Shape shape(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) {
    combined[d] = chain.order.empty() ? order[d] : chain.order[order[d]];
    shape[d] = chain.shape[order[d]];
  }
  chain.order = std::move(combined);
  chain.shape = std::move(shape);
}

// The index must have a fixed size, so its codecs are bytes and optionally crc32c.
void parse_index_codecs(const Json& list, ShardCodec& shard) {
  const JsonArray* codecs = list.as_array();
  if (!codecs || codecs->empty())
    throw Error(Code::kDataLoss, "index_codecs: " + to_text(list) + " is not a list of codecs");
  const Extension bytes = parse_extension((*codecs)[0], "index codec");
  if (bytes.name != "bytes")
    throw Error(Code::kUnimplemented,
                "index codec '" + std::string(bytes.name) + "' is not supported");
  shard.index_big_endian = parse_endian(bytes, true);
  shard.index_crc32c = codecs->size() == 2;
  if (codecs->size() == 1) return;
  const Extension crc = parse_extension((*codecs)[1], "index codec");
  if (codecs->size() > 2 || crc.name != "crc32c")
    throw Error(Code::kUnimplemented,
                "index codecs " + to_text(list) +
                    " are not supported: expected bytes, then optionally crc32c");
  allow_only(crc, {});
}

void parse_sharding(const Extension& codec, const ElementType& type, int depth, CodecChain& chain) {
  allow_only(codec, {"chunk_shape", "codecs", "index_codecs", "index_location"});
  if (depth >= kMaxShardDepth)
    throw Error(Code::kUnimplemented,
                "shards nested more than " + std::to_string(kMaxShardDepth) + " deep");
  auto shard = std::make_shared<ShardCodec>();
  shard->chunk_shape =
      parse_extents(required(codec, "chunk_shape"), "'sharding_indexed': chunk_shape", 1);
  bool divides = shard->chunk_shape.size() == chain.shape.size();
  for (std::size_t d = 0; divides && d < chain.shape.size(); ++d) {
    divides = chain.shape[d] % shard->chunk_shape[d] == 0;
    shard->grid.push_back(chain.shape[d] / shard->chunk_shape[d]);
  }
  if (!divides)
    throw Error(Code::kDataLoss, "'sharding_indexed': chunk_shape " +
                                     shape_text(shard->chunk_shape) +
                                     " does not divide the shard " + shape_text(chain.shape));
  shard->codecs = with_context(
      [] { return "'sharding_indexed'"; },
      [&] { return parse_codecs(required(codec, "codecs"), shard->chunk_shape, type, depth + 1); });
  if (const Json* index_codecs = codec.find("index_codecs"))
    parse_index_codecs(*index_codecs, *shard);
  if (const Json* location = codec.find("index_location"))
    shard->index_at_start =
        second_of(*location, "'sharding_indexed': index_location", "end", "start");
  chain.shard = std::move(shard);
}

constexpr std::string_view kNumcodecs = "numcodecs.";

// Returns the id of the codec in numcodecs; empty for codecs that numcodecs does not have.
std::string_view numcodecs_id(const Extension& codec) {
  if (codec.name.starts_with(kNumcodecs)) return codec.name.substr(kNumcodecs.size());
  const bool own = codec.name == "zstd" || codec.name == "gzip" || codec.name == "blosc";
  return own ? codec.name : std::string_view();
}

void add_steps(const Extension& codec, DType element, CodecChain& chain) {
  if (codec.name == "crc32c") {
    allow_only(codec, {});
    chain.steps.emplace_back(Crc32cStep{});
    return;
  }
  const std::string_view id = numcodecs_id(codec);
  if (id.empty())
    throw Error(Code::kUnimplemented, "codec '" + std::string(codec.name) + "' is not supported");
  const bool has_default = element != DType::kOpaque;
  const auto steps = parse_numcodecs(id, codec.configuration ? *codec.configuration : Json(),
                                     has_default ? std::optional(element) : std::nullopt);
  chain.steps.insert(chain.steps.end(), steps.begin(), steps.end());
}

// The state of parsing a chain: the codecs that have been seen so far.
struct ChainParser {
  const ElementType& type;
  int depth;
  CodecChain chain;
  bool in_bytes = false;   // after the array-to-bytes codec
  bool filtered = false;   // after an array filter
  bool flattened = false;  // after a filter that loses the shape

  void add(const Extension& codec);

 private:
  void check_order(const Extension& codec) const;
  void add_transpose(const Extension& codec);
  void add_to_bytes(const Extension& codec);
};

bool makes_bytes(const Extension& codec) {
  return codec.name == "bytes" || codec.name == "sharding_indexed" ||
         object_codec(codec.name) != ObjectCodec::kNone;
}

void ChainParser::check_order(const Extension& codec) const {
  const std::string name = "codec '" + std::string(codec.name) + "'";
  const std::string_view id = numcodecs_id(codec);
  const bool to_bytes = makes_bytes(codec);
  const bool of_arrays = codec.name == "transpose" || is_array_filter(id);
  if (in_bytes && (to_bytes || of_arrays))
    throw Error(Code::kDataLoss, name + " cannot follow a codec that produces bytes");
  if (!in_bytes && !to_bytes && !of_arrays)
    throw Error(Code::kDataLoss, name + " comes before 'bytes' or 'sharding_indexed'");
  if (in_bytes && chain.shard)
    throw Error(Code::kUnimplemented, name + " around 'sharding_indexed' is not supported");
  if (filtered && codec.name == "sharding_indexed")
    throw Error(Code::kUnimplemented, "shards behind a filter are not supported");
}

// zarr-python fails to write a transpose behind a filter that loses the shape, and what it reads
// depends on the memory layout of its intermediate arrays. A transpose without effect is harmless.
void ChainParser::add_transpose(const Extension& codec) {
  const auto before = chain.order;
  parse_transpose(codec, chain);
  const auto& order = chain.order;
  const bool same = before.empty() ? std::is_sorted(order.begin(), order.end()) : order == before;
  if (flattened && !same)
    throw Error(Code::kUnimplemented,
                "codec 'transpose' behind a filter that loses the shape is not supported");
}

void ChainParser::add_to_bytes(const Extension& codec) {
  in_bytes = true;
  if (codec.name == "sharding_indexed") return parse_sharding(codec, type, depth, chain);
  chain.objects = object_codec(codec.name);
  if ((chain.objects == ObjectCodec::kNone) != (type.size > 0))
    throw Error(Code::kDataLoss, "codec '" + std::string(codec.name) +
                                     "' cannot encode elements of type " + type.name);
  if (chain.objects != ObjectCodec::kNone) return;
  if (!filtered) return parse_bytes(codec, type, chain);
  // After a filter, elements may have another type whose size differs from the array's.
  if (parse_endian(codec, false))
    throw Error(Code::kUnimplemented, "big-endian elements behind a filter are not supported");
  chain.set_order(false, type.dtype);
}

void ChainParser::add(const Extension& codec) {
  check_order(codec);
  if (codec.name == "transpose") return add_transpose(codec);
  if (makes_bytes(codec)) return add_to_bytes(codec);
  filtered = filtered || !in_bytes;
  flattened = flattened || flattens(numcodecs_id(codec));
  add_steps(codec, type.dtype, chain);
}

CodecChain parse_codecs(const Json& list, Shape chunk_shape, const ElementType& type, int depth) {
  const JsonArray* codecs = list.as_array();
  if (!codecs)
    throw Error(Code::kDataLoss, "codecs: " + to_text(list) + " is not a list of codecs");
  ChainParser parser{.type = type, .depth = depth, .chain = {}};
  parser.chain.nbytes = chunk_bytes(chunk_shape, type.size);
  parser.chain.shape = std::move(chunk_shape);
  for (const Json& codec : *codecs) parser.add(parse_extension(codec, "codec"));
  if (!parser.in_bytes)
    throw Error(Code::kDataLoss, "codecs: the list has no 'bytes' or 'sharding_indexed'");
  return std::move(parser.chain);
}

// Returns the shape of the innermost chunks, in the array's order of dimensions.
Shape innermost_chunk(const CodecChain& chain) {
  const Shape encoded = chain.shard ? innermost_chunk(chain.shard->codecs) : chain.shape;
  if (chain.order.empty()) return encoded;
  Shape shape(encoded.size());
  for (std::size_t d = 0; d < encoded.size(); ++d) shape[chain.order[d]] = encoded[d];
  return shape;
}

// For elements without a fixed size, the codec that converts them to bytes is part of their type
// name.
std::string_view object_codec_name(ObjectCodec codec) {
  return codec == ObjectCodec::kVlenUtf8    ? "vlen-utf8"
         : codec == ObjectCodec::kVlenBytes ? "vlen-bytes"
                                            : "objects";
}

// ---- the other members ----

Shape parse_chunk_grid(const Json& root) {
  const Extension grid = parse_extension(required_member(root, "chunk_grid"), "chunk_grid");
  if (grid.name != "regular")
    throw Error(Code::kUnimplemented,
                "chunk_grid '" + std::string(grid.name) + "' is not supported");
  allow_only(grid, {"chunk_shape"});
  return parse_extents(required(grid, "chunk_shape"), "chunk_shape", 1);
}

ChunkKeys parse_chunk_keys(const Json& root) {
  const Extension encoding =
      parse_extension(required_member(root, "chunk_key_encoding"), "chunk_key_encoding");
  const bool v3 = encoding.name == "default";
  if (!v3 && encoding.name != "v2")
    throw Error(Code::kUnimplemented,
                "chunk_key_encoding '" + std::string(encoding.name) + "' is not supported");
  allow_only(encoding, {"separator"});
  const Json* separator = encoding.find("separator");
  const bool dot =
      separator ? second_of(*separator, "chunk_key_encoding: separator", "/", ".") : !v3;
  return {.c_prefix = v3, .separator = dot ? '.' : '/'};
}

std::vector<std::optional<std::string>> parse_dimension_names(const Json& root, std::size_t rank) {
  std::vector<std::optional<std::string>> names;
  const Json* member = root.find("dimension_names");
  if (!member || member->is_null()) return names;
  const JsonArray* list = member->as_array();
  if (!list || list->size() != rank)
    throw Error(Code::kDataLoss,
                "dimension_names: " + to_text(*member) + " does not name each dimension");
  for (const Json& name : *list) {
    if (!name.is_null() && !name.as_string())
      throw Error(Code::kDataLoss, "dimension_names: " + to_text(name) + " is not a name");
    names.push_back(name.as_string() ? std::optional(*name.as_string()) : std::nullopt);
  }
  return names;
}

void check_members(const Json& root) {
  constexpr std::string_view kKnown[] = {
      "zarr_format",         "node_type",  "shape",  "data_type",  "chunk_grid",
      "chunk_key_encoding",  "fill_value", "codecs", "attributes", "dimension_names",
      "storage_transformers"};
  for (const auto& [key, value] : *root.as_object()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown)) continue;
    const Json* must = value.find("must_understand");
    const bool optional = value.is_null() || (must && must->as_bool() && !*must->as_bool());
    if (!optional)
      throw Error(Code::kUnimplemented, "metadata member '" + key + "' is not supported");
  }
  const Json* transformers = root.find("storage_transformers");
  if (transformers && !(transformers->as_array() && transformers->as_array()->empty()))
    throw Error(Code::kUnimplemented,
                "storage_transformers " + to_text(*transformers) + " are not supported");
}

void check_zarr3_format(const Json& root) {
  if (!root.as_object())
    throw Error(Code::kDataLoss,
                "the metadata is " + std::string(root.type_text()) + ", not an object");
  const Json& format = required_member(root, "zarr_format");
  if (format.as_int64(true) != std::int64_t{3})
    throw Error(Code::kDataLoss, "zarr_format: " + to_text(format) + ", expected 3");
  if (required_text(root, "node_type") != "array")
    throw Error(Code::kDataLoss,
                "node_type: " + to_text(*root.find("node_type")) + ", expected \"array\"");
  check_members(root);
}

}  // namespace

ArrayMetadata parse_zarr_json(std::string_view json) {
  const Json root = parse_json(without_byte_order_mark(json));
  check_zarr3_format(root);
  ArrayMetadata metadata;
  metadata.zarr_format = 3;
  metadata.shape = parse_extents(required_member(root, "shape"), "shape", 0);
  metadata.chunk_shape = parse_chunk_grid(root);
  if (metadata.chunk_shape.size() != metadata.shape.size())
    throw Error(Code::kDataLoss, "chunk_shape " + shape_text(metadata.chunk_shape) + " and shape " +
                                     shape_text(metadata.shape) + " differ in rank");
  ElementType type = parse_v3_data_type(required_member(root, "data_type"));
  check_array_size(metadata.shape, type.size);
  const Json& fill = required_member(root, "fill_value");
  metadata.fill_value = parse_v3_fill(fill, type);
  metadata.keys = parse_chunk_keys(root);
  metadata.codecs = parse_codecs(required_member(root, "codecs"), metadata.chunk_shape, type, 0);
  if (metadata.codecs.shard) metadata.inner_chunk_shape = innermost_chunk(metadata.codecs);
  if (const Json* attributes = root.find("attributes")) metadata.attributes = *attributes;
  metadata.dimension_names = parse_dimension_names(root, metadata.shape.size());
  metadata.dtype = type.dtype;
  metadata.element_size = type.size;
  metadata.dtype_name = std::move(type.name);
  if (type.size > 0) return metadata;
  const ObjectCodec codec = object_codec_of(metadata.codecs);
  metadata.fill_value = parse_object_fill(fill, codec);
  metadata.dtype_name += " (" + std::string(object_codec_name(codec)) + ")";
  return metadata;
}

}  // namespace cairn::inline v0::zarr
