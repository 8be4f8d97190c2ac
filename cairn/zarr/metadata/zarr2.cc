// zarr2.cc -- parses `.zarray`, the metadata of a Zarr v2 array.
//
//   {"chunks":[32,64],"compressor":{"id":"zstd","level":1},"dimension_separator":".",
//    "dtype":"<f4","fill_value":null,"filters":null,"order":"C","shape":[96,64],"zarr_format":2}
//
// zarr_format, shape, chunks, dtype and compressor are required. fill_value and filters default to
// null, order to "C", dimension_separator to ".". The parser ignores unknown members, as the format
// requires.
#include <cairn/error.h>
#include <cairn/zarr/codec/numcodecs.h>
#include <cairn/zarr/metadata/array_metadata.h>
#include <cairn/zarr/metadata/element_type.h>
#include <cairn/zarr/metadata/fill_value.h>
#include <cairn/zarr/metadata/metadata_json.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

char parse_separator(const Json& root) {
  const Json* separator = root.find("dimension_separator");
  if (!separator || separator->is_null()) return '.';
  const std::string* text = separator->as_string();
  if (!text || (*text != "." && *text != "/"))
    throw Error(Code::kDataLoss,
                "dimension_separator: " + to_text(*separator) + ", expected \".\" or \"/\"");
  return (*text)[0];
}

bool is_fortran_order(const Json& root) {
  const Json* order = root.find("order");
  if (!order || order->is_null()) return false;
  const std::string* text = order->as_string();
  if (!text || (*text != "C" && *text != "F"))
    throw Error(Code::kDataLoss, "order: " + to_text(*order) + ", expected \"C\" or \"F\"");
  return *text == "F";
}

void parse_step(const Json& codec, std::string_view member, std::vector<ByteStep>& steps) {
  with_context([&] { return std::string(member); },
               [&] {
                 if (!codec.as_object())
                   throw Error(Code::kDataLoss, to_text(codec) + " is not a codec");
                 const auto more = parse_numcodecs(required_text(codec, "id"), codec, std::nullopt);
                 steps.insert(steps.end(), more.begin(), more.end());
               });
}

std::span<const Json> parse_filters(const Json& root) {
  const Json* filters = root.find("filters");
  if (!filters || filters->is_null()) return {};
  if (const JsonArray* list = filters->as_array()) return *list;
  throw Error(Code::kDataLoss, "filters: " + to_text(*filters) + ", expected null or a list");
}

// For elements without a fixed size, the first filter converts them to bytes. Removes that filter
// from the list and returns its id.
std::string take_object_codec(std::span<const Json>& filters, CodecChain& chain) {
  const Json* named = filters.empty() ? nullptr : filters[0].find("id");
  const std::string* id = named ? named->as_string() : nullptr;
  if (id) chain.objects = object_codec(*id);
  if (!id || chain.objects == ObjectCodec::kNone)
    throw Error(Code::kDataLoss, "dtype '|O' needs a filter that encodes its elements as bytes");
  filters = filters.subspan(1);
  return *id;
}

void parse_steps(const Json& root, ArrayMetadata& metadata) {
  CodecChain& chain = metadata.codecs;
  std::span<const Json> filters = parse_filters(root);
  if (metadata.element_size == 0)
    metadata.dtype_name += " (" + take_object_codec(filters, chain) + ")";
  for (const Json& filter : filters) parse_step(filter, "filter", chain.steps);
  const Json& compressor = required_member(root, "compressor");
  if (!compressor.is_null()) parse_step(compressor, "compressor", chain.steps);
}

void parse_chain(const Json& root, ArrayMetadata& metadata, bool big_endian) {
  CodecChain& chain = metadata.codecs;
  chain.shape = metadata.chunk_shape;
  const std::size_t rank = chain.shape.size();
  if (is_fortran_order(root) && rank > 1) {
    for (std::size_t d = rank; d-- > 0;) chain.order.push_back(d);
    chain.shape.assign(metadata.chunk_shape.rbegin(), metadata.chunk_shape.rend());
  }
  chain.nbytes = chunk_bytes(chain.shape, metadata.element_size);
  chain.set_order(big_endian, metadata.dtype);
  parse_steps(root, metadata);
}

void check_zarr2_format(const Json& root) {
  if (!root.as_object())
    throw Error(Code::kDataLoss,
                "the metadata is " + std::string(root.type_text()) + ", not an object");
  const Json& format = required_member(root, "zarr_format");
  if (format.as_int64(true) != std::int64_t{2})
    throw Error(Code::kDataLoss, "zarr_format: " + to_text(format) + ", expected 2");
}

}  // namespace

ArrayMetadata parse_zarray(std::string_view json) {
  const Json root = parse_json(without_byte_order_mark(json));
  check_zarr2_format(root);
  ArrayMetadata metadata;
  metadata.zarr_format = 2;
  metadata.shape = parse_extents(required_member(root, "shape"), "shape", 0);
  metadata.chunk_shape = parse_extents(required_member(root, "chunks"), "chunks", 1);
  if (metadata.chunk_shape.size() != metadata.shape.size())
    throw Error(Code::kDataLoss, "chunks " + shape_text(metadata.chunk_shape) + " and shape " +
                                     shape_text(metadata.shape) + " differ in rank");
  ElementType type = parse_v2_dtype(required_member(root, "dtype"));
  check_array_size(metadata.shape, type.size);
  const Json* fill = root.find("fill_value");
  metadata.fill_value = parse_v2_fill(fill, type);
  metadata.fill_is_null = !fill || fill->is_null();
  metadata.dtype = type.dtype;
  metadata.element_size = type.size;
  metadata.dtype_name = std::move(type.name);
  metadata.keys = {.c_prefix = false, .separator = parse_separator(root)};
  parse_chain(root, metadata, type.big_endian);
  if (type.size == 0 && !metadata.fill_is_null)
    metadata.fill_value = parse_object_fill(*fill, metadata.codecs.objects);
  return metadata;
}

}  // namespace cairn::inline v0::zarr
