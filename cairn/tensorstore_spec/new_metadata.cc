// new_metadata.cc -- makes the metadata of new arrays from a spec, and compares the metadata of
// existing arrays with a spec.
//
// The code adds the parts that the spec leaves open as JSON, and parses the result like stored
// metadata. So there is only one parser of metadata.
#include <cairn/tensorstore_spec/members.h>
#include <cairn/tensorstore_spec/zarr_spec.h>
#include <cairn/zarr/metadata/element_type.h>

#include <algorithm>
#include <span>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

constexpr std::int64_t kDefaultChunkElements = 1 << 20;

zarr::ArrayMetadata parse_metadata(int zarr_format, const std::string& text) {
  return zarr_format == 3 ? zarr::parse_zarr_json(text) : zarr::parse_zarray(text);
}

// Like parse_metadata, for text from a spec: an error is the caller's, so data_loss becomes
// invalid_argument.
zarr::ArrayMetadata parse_wanted_metadata(const ZarrSpec& spec, const Json& metadata) {
  try {
    return parse_metadata(spec.zarr_format, to_text(metadata));
  } catch (const Error& error) {
    refuse(spec.pointer + "/metadata", error.message(),
           error.code() == Code::kDataLoss ? Code::kInvalidArgument : error.code());
  }
}

bool knows_member(int zarr_format, std::string_view name) {
  constexpr std::string_view kBoth[] = {"zarr_format", "shape", "fill_value"};
  constexpr std::string_view kV2[] = {"chunks", "dtype",   "compressor",
                                      "order",  "filters", "dimension_separator"};
  constexpr std::string_view kV3[] = {
      "node_type", "data_type",  "chunk_grid",      "chunk_key_encoding",
      "codecs",    "attributes", "dimension_names", "storage_transformers"};
  const auto among = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return among(kBoth) || (zarr_format == 3 ? among(kV3) : among(kV2));
}

Json extents(const Shape& shape) {
  JsonArray list;
  for (const std::int64_t n : shape) list.emplace_back(n);
  return {std::move(list)};
}

Json named(const char* name, JsonObject configuration) {
  return JsonObject{{"name", name}, {"configuration", std::move(configuration)}};
}

// ---- codecs: v3 metadata must list all of them, specs need not ----

std::string_view codec_name(const Json& codec) {
  const Json* name = codec.find("name");
  return name && name->as_string() ? std::string_view(*name->as_string()) : std::string_view();
}

Json complete_codecs(const Json& codecs, std::size_t element_size);

Json bytes_codec(std::size_t element_size) {
  if (element_size < 2) return JsonObject{{"name", "bytes"}};
  return named("bytes", {{"endian", "little"}});
}

Json complete_codec(const Json& given, std::size_t element_size) {
  Json codec = given.as_string() ? Json(JsonObject{{"name", given}}) : given;
  const std::string_view name = codec_name(codec);
  const Json* found = codec.find("configuration");
  Json configuration = found ? *found : Json(JsonObject());
  if (name == "bytes" && element_size > 1 && configuration.as_object() &&
      !configuration.find("endian")) {
    configuration.set("endian", "little");
    codec.set("configuration", std::move(configuration));
  } else if (name == "zstd" && configuration.as_object() && !configuration.find("level")) {
    configuration.set("level", 3);  // TensorStore's default; the format itself has no default
    codec.set("configuration", std::move(configuration));
  } else if (name == "sharding_indexed" && configuration.as_object()) {
    const Json* inner = configuration.find("codecs");
    const Json* index = configuration.find("index_codecs");
    configuration.set("codecs", complete_codecs(inner ? *inner : Json(JsonArray()), element_size));
    if (!index)
      configuration.set("index_codecs", JsonArray{bytes_codec(8), JsonObject{{"name", "crc32c"}}});
    codec.set("configuration", std::move(configuration));
  }
  return codec;
}

Json complete_codecs(const Json& codecs, std::size_t element_size) {
  if (!codecs.as_array()) return codecs;  // the parser refuses it later
  JsonArray list;
  for (const Json& codec : *codecs.as_array()) list.push_back(complete_codec(codec, element_size));
  const bool has_bytes = std::any_of(list.begin(), list.end(), [](const Json& c) {
    return codec_name(c) == "bytes" || codec_name(c) == "sharding_indexed";
  });
  if (has_bytes) return list;
  const auto first = std::find_if(list.begin(), list.end(),
                                  [](const Json& c) { return codec_name(c) != "transpose"; });
  list.insert(first, bytes_codec(element_size));
  return list;
}

// ---- new arrays ----

DType dtype_of(const ZarrSpec& spec) {
  const char* const member = spec.zarr_format == 3 ? "data_type" : "dtype";
  const Json* given = spec.constraints.find(member);
  if (!given) {
    if (!spec.wanted.dtype) refuse(spec.pointer + "/dtype", "is missing: a new array needs a type");
    return *spec.wanted.dtype;
  }
  const std::string pointer = spec.pointer + "/metadata/" + member;
  try {
    const DType dtype =
        (spec.zarr_format == 3 ? zarr::parse_v3_data_type(*given) : zarr::parse_v2_dtype(*given))
            .dtype;
    if (spec.wanted.dtype && *spec.wanted.dtype != dtype)
      refuse(pointer, "contradicts another member of the spec");
    return dtype;
  } catch (const Error& error) {
    if (error.code() == Code::kInvalidArgument) throw;
    refuse(pointer, error.message(),
           error.code() == Code::kDataLoss ? Code::kInvalidArgument : error.code());
  }
}

Shape shape_of(const ZarrSpec& spec) {
  const Json* given = spec.constraints.find("shape");
  if (!given) {
    if (!spec.wanted.shape)
      refuse(spec.pointer + "/metadata/shape", "is missing: a new array needs a shape");
    return *spec.wanted.shape;
  }
  const std::string pointer = spec.pointer + "/metadata/shape";
  if (!given->as_array()) refuse(pointer, "expected a list of extents");
  Shape shape;
  for (const Json& item : *given->as_array()) {
    const auto n = item.as_int64();
    if (!n || *n < 0) refuse(pointer, "expected extents of at least 0, not " + to_text(item));
    shape.push_back(*n);
  }
  return shape;
}

Shape default_chunks(const ZarrSpec& spec, Shape shape, const char* member) {
  for (std::int64_t& n : shape) n = std::max<std::int64_t>(n, 1);
  const auto count = try_call([&] { return element_count(shape); });
  if (!count || count.value() > kDefaultChunkElements)
    refuse(spec.pointer + "/metadata/" + member,
           "is missing: an array of more than 2^20 elements needs a chunk shape",
           Code::kUnimplemented);
  return shape;
}

// Returns complete metadata for an array of this type. The caller overlays the spec's members.
Json defaults(const ZarrSpec& spec, DType dtype, const Shape& shape) {
  // The metadata writer's own spelling of type and fill value.
  Json all = parse_json(zarr::metadata_text(zarr::make_metadata(
      {.zarr_format = spec.zarr_format, .dtype = dtype, .compression = Compression::kNone})));
  all.set("shape", extents(shape));
  if (spec.zarr_format == 3) {
    all.set("codecs", complete_codecs(JsonArray(), dtype_size(dtype)));
    if (!spec.constraints.find("chunk_grid"))
      all.set(
          "chunk_grid",
          named("regular", {{"chunk_shape", extents(default_chunks(spec, shape, "chunk_grid"))}}));
    return all;
  }
  all.set("compressor",
          JsonObject{
              {"id", "blosc"}, {"cname", "lz4"}, {"clevel", 5}, {"shuffle", -1}, {"blocksize", 0}});
  if (!spec.constraints.find("chunks"))
    all.set("chunks", extents(default_chunks(spec, shape, "chunks")));
  return all;
}

Json completed(int zarr_format, const std::string& member, const Json& value,
               std::size_t element_size) {
  return zarr_format == 3 && member == "codecs" ? complete_codecs(value, element_size) : value;
}

void check_members(const ZarrSpec& spec) {
  if (!spec.constraints.as_object()) return;
  for (const auto& [name, value] : *spec.constraints.as_object())
    if (!knows_member(spec.zarr_format, name))
      refuse(spec.pointer + "/metadata/" + name, "unknown member");
}

}  // namespace

zarr::ArrayMetadata new_metadata(const ZarrSpec& spec) {
  check_members(spec);
  const DType dtype = dtype_of(spec);
  if (dtype == DType::kOpaque)
    refuse(spec.pointer + "/metadata",
           "Cairn does not create arrays of elements that it does not interpret",
           Code::kUnimplemented);
  const Shape shape = shape_of(spec);
  Json all = defaults(spec, dtype, shape);
  if (const JsonObject* given = spec.constraints.as_object())
    for (const auto& [name, value] : *given)
      all.set(name, completed(spec.zarr_format, name, value, dtype_size(dtype)));
  zarr::ArrayMetadata metadata = parse_wanted_metadata(spec, all);
  spec.wanted.check(metadata.dtype, metadata.shape, spec.pointer);
  return metadata;
}

void check_metadata(const ZarrSpec& spec, std::string_view stored_text,
                    const zarr::ArrayMetadata& stored) {
  spec.wanted.check(stored.dtype, stored.shape, spec.pointer);
  check_members(spec);
  const JsonObject* given = spec.constraints.as_object();
  if (!given || given->empty()) return;
  const Json as_stored = parse_json(stored_text);
  const auto spelled = try_call([&] { return zarr::metadata_text(stored); });
  for (const auto& [name, value] : *given) {
    Json changed = as_stored;
    changed.set(name, completed(spec.zarr_format, name, value, stored.element_size));
    // Compares the written form, so that spelling does not matter. Metadata that Cairn cannot write
    // must match as text.
    const bool same =
        spelled ? zarr::metadata_text(parse_wanted_metadata(spec, changed)) == spelled.value()
                : changed == as_stored;
    const Json* there = as_stored.find(name);
    if (!same)
      refuse(spec.pointer + "/metadata/" + name,
             to_text(value) + " is requested, but the array has " +
                 (there ? to_text(*there) : std::string("none")),
             Code::kFailedPrecondition);
  }
}

}  // namespace cairn::inline v0::tensorstore_spec
