// zarr_metadata.cc -- reads the facts of a metadata file that both versions of Zarr have. They are
// taken from the text that TensorStore would write.
#include <cairn/handlers/zarr_metadata.h>

#include <cairn/base/json/json.h>
#include <cairn/error.h>
#include <cairn/orbax/array_spec.h>

#include <string>
#include <string_view>

namespace cairn::inline v0::handlers {
namespace {

std::string text_of(const Json* json, std::string_view otherwise) {
  const std::string* text = json == nullptr ? nullptr : json->as_string();
  return std::string(text == nullptr ? otherwise : *text);
}

std::optional<Shape> shape_of(const Json* json) {
  const JsonArray* extents = json == nullptr ? nullptr : json->as_array();
  if (extents == nullptr) return std::nullopt;
  Shape shape;
  for (const Json& extent : *extents) shape.push_back(extent.as_int64().value_or(0));
  return shape;
}

// A member of a member, or nullptr.
const Json* find(const Json* json, std::string_view key) {
  return json == nullptr ? nullptr : json->find(key);
}

ZarrMetadata::Compression compression_of(const Json* name, const Json* config) {
  const Json* level = find(config, "level");
  return {text_of(name, "unknown"), level == nullptr ? std::nullopt : level->as_int64()};
}

void describe_v2(const Json& json, ZarrMetadata& out) {
  out.dtype = text_of(json.find("dtype"), "");
  out.chunk_shape = shape_of(json.find("chunks")).value_or(Shape());
  const Json* compressor = json.find("compressor");
  if (compressor != nullptr && compressor->as_object() != nullptr)
    out.compression = compression_of(compressor->find("id"), compressor);
  out.order = text_of(json.find("order"), "C");
  out.dimension_separator = text_of(json.find("dimension_separator"), ".");
}

void describe_v3(const Json& json, ZarrMetadata& out) {
  out.dtype = text_of(json.find("data_type"), "");
  out.chunk_shape = shape_of(find(find(json.find("chunk_grid"), "configuration"), "chunk_shape"))
                        .value_or(Shape());
  const Json* codecs = json.find("codecs");
  if (codecs == nullptr || codecs->as_array() == nullptr) return;
  for (const Json& codec : *codecs->as_array()) {
    if (text_of(codec.find("name"), "") != "sharding_indexed") continue;
    const Json* config = codec.find("configuration");
    out.inner_chunk_shape = shape_of(find(config, "chunk_shape"));
    if (out.inner_chunk_shape && out.inner_chunk_shape->empty()) out.inner_chunk_shape.reset();
    codecs = find(config, "codecs");
    break;
  }
  if (codecs == nullptr || codecs->as_array() == nullptr) return;
  for (const Json& codec : *codecs->as_array()) {
    const std::string name = text_of(codec.find("name"), "");
    if (name == "bytes" || name == "crc32c" || name == "transpose") continue;
    out.compression = compression_of(codec.find("name"), codec.find("configuration"));
    return;
  }
}

std::optional<ZarrMetadata> describe_json(const Json& json) {
  const Json* format = json.find("zarr_format");
  ZarrMetadata out{.shape = shape_of(json.find("shape")).value_or(Shape())};
  out.zarr_format = static_cast<int>(format == nullptr ? 0 : format->as_int64().value_or(0));
  if (out.zarr_format == 2)
    describe_v2(json, out);
  else if (out.zarr_format == 3)
    describe_v3(json, out);
  else
    return std::nullopt;
  return out;
}

}  // namespace

std::optional<ZarrMetadata> describe_zarr(const zarr::ArrayMetadata& metadata) {
  const auto text = try_call([&] { return zarr::metadata_text(metadata); });
  if (!text) return std::nullopt;
  return describe_json(parse_json(text.value()));
}

}  // namespace cairn::inline v0::handlers

namespace cairn::inline v0 {

std::optional<ZarrMetadata> zarr_metadata_from_json(std::string_view json) {
  const auto parsed = try_call([&] { return parse_json(json); });
  if (!parsed || parsed.value().as_object() == nullptr)
    throw Error(Code::kInvalidArgument, "the metadata of an array is a JSON object");
  return handlers::describe_json(parsed.value());
}

}  // namespace cairn::inline v0
