// array_spec.cc -- the specs with which Orbax opens arrays for reading and writing.
//
//   write:
//   {"driver":"cast","dtype":"float32","base":{"driver":"zarr","dtype":"bfloat16","kvstore":{...},
//     "metadata":{"shape":[8,6],"chunks":[4,6],"compressor":{"id":"zstd","level":1}},
//     "recheck_cached_data":false,"recheck_cached_metadata":false,
//     "store_data_equal_to_fill_value":true}}
// The cast is present only if the stored type differs. Chunks that equal the fill value are stored,
// too, so that a missing chunk is known to be lost.
#include <cairn/base/json/json.h>
#include <cairn/handlers/specs/kvstore_spec.h>
#include <cairn/orbax/array_spec.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <utility>

namespace cairn::inline v0 {
namespace {

Json object(JsonObject members) { return {std::move(members)}; }

Json extents(const Shape& shape) {
  JsonArray list;
  for (const std::int64_t extent : shape) list.emplace_back(extent);
  return {std::move(list)};
}

std::size_t size_of(DType dtype) {
  if (dtype == DType::kOpaque)
    throw Error(Code::kInvalidArgument,
                "arrays whose elements Cairn does not interpret have no spec");
  return dtype_size(dtype);
}

Json name_of(DType dtype) {
  (void)size_of(dtype);
  return {dtype_name(dtype)};
}

Json array_spec(bool zarr3, Json kvstore, const std::optional<std::string>& metadata_key) {
  Json spec = object({{"driver", zarr3 ? kZarr3Driver : kZarr2Driver},
                      {"kvstore", std::move(kvstore)},
                      {"recheck_cached_data", false},
                      {"recheck_cached_metadata", false}});
  if (metadata_key) spec.set("metadata_key", *metadata_key);
  return spec;
}

Json cast_spec(Json base, DType dtype) {
  return object({{"driver", "cast"}, {"dtype", name_of(dtype)}, {"base", std::move(base)}});
}

Json parsed_object(std::string_view spec) {
  Json parsed;
  try {
    parsed = parse_json(spec);
  } catch (const Error& error) {
    throw Error(Code::kInvalidArgument, std::string("TensorStore spec: ") + error.message());
  }
  if (!parsed.as_object())
    throw Error(Code::kInvalidArgument,
                "a TensorStore spec is a JSON object, not " + std::string(parsed.type_text()));
  return parsed;
}

Json codec(const char* name, JsonObject configuration) {
  return object({{"name", name}, {"configuration", std::move(configuration)}});
}

Json zarr2_metadata(const ArrayMetadata& array) {
  Json compressor;
  if (array.compression_level)
    compressor = object({{"id", array.compression_algorithm}, {"level", *array.compression_level}});
  return object({{"shape", extents(array.shape)},
                 {"chunks", extents(array.chunk_shape)},
                 {"compressor", std::move(compressor)}});
}

// Every chunk is a shard of one inner chunk.
Json zarr3_metadata(const ArrayMetadata& array) {
  const Json bytes = codec("bytes", {{"endian", "little"}});
  JsonArray inner = {bytes};
  if (array.compression_level)
    inner.push_back(codec("zstd", {{"level", *array.compression_level}}));
  const Json index = JsonArray{bytes, object({{"name", "crc32c"}})};
  const Json chunk_shape = extents(array.chunk_shape);
  const Json shard = codec("sharding_indexed", {{"chunk_shape", chunk_shape},
                                                {"codecs", std::move(inner)},
                                                {"index_codecs", index},
                                                {"index_location", "end"}});
  return object({{"shape", extents(array.shape)},
                 {"chunk_grid", codec("regular", {{"chunk_shape", chunk_shape}})},
                 {"codecs", JsonArray{shard}}});
}

KvStoreSpecOptions store_options(const ArrayWriteSpecOptions& options) {
  KvStoreSpecOptions store{.directory = options.directory,
                           .name = options.relative_array_filename,
                           .use_ocdbt = options.use_ocdbt};
  if (options.process_id)
    store.process = OcdbtProcessSpec{.process_id = *options.process_id,
                                     .use_replica_suffix = options.replica_separate_folder};
  store.write = OcdbtWriteOptions{
      .mode = OcdbtWriteMode::kWrite,
      .target_data_file_size = options.ocdbt_target_data_file_size,
      .store_ocdbt_metadata_and_values_separately =
          options.store_ocdbt_metadata_and_values_separately,
  };
  store.temporary_metadata = options.temporary_metadata;
  return store;
}

Shape chunk_shape_of(const ArrayWriteSpecOptions& options, DType stored, const Json& kvstore) {
  std::optional<std::int64_t> target = options.chunk_byte_size;
  if (options.use_ocdbt) {
    const std::int64_t file_size =
        options.ocdbt_target_data_file_size.value_or(handlers::default_data_file_size(kvstore));
    target = calculate_chunk_byte_size({.write_shape = options.write_shape,
                                        .dtype = stored,
                                        .chunk_byte_size = target,
                                        .ocdbt_target_data_file_size = file_size});
  }
  return choose_chunk_shape({.global_shape = options.global_shape,
                             .write_shape = options.write_shape,
                             .dtype = stored,
                             .target_byte_size = target,
                             .shard_axes = options.shard_axes});
}

}  // namespace

Shape choose_chunk_shape(const ChunkShapeOptions& options) {
  return zarr::choose_chunk_shape(
      options.global_shape, options.write_shape, size_of(options.dtype),
      {.bytes = options.target_byte_size, .shard_axes = options.shard_axes});
}

std::optional<std::int64_t> calculate_chunk_byte_size(const ChunkByteSizeOptions& options) {
  const Json kvstore =
      options.kvstore_spec ? parsed_object(*options.kvstore_spec) : Json(JsonObject());
  const auto elements = static_cast<std::uint64_t>(element_count(options.write_shape));
  return zarr::effective_chunk_bytes(
      options.chunk_byte_size,
      options.ocdbt_target_data_file_size.value_or(handlers::default_data_file_size(kvstore)),
      elements * size_of(options.dtype));
}

std::string get_cast_tspec_serialize(std::string_view spec, DType dtype,
                                     std::optional<DType> target_dtype) {
  Json base = parsed_object(spec);
  base.set("dtype", name_of(target_dtype.value_or(dtype)));
  return to_text(cast_spec(std::move(base), dtype));
}

std::string get_cast_tspec_deserialize(std::string_view spec, std::optional<DType> dtype) {
  Json base = parsed_object(spec);
  return to_text(dtype ? cast_spec(std::move(base), *dtype) : base);
}

ArrayReadSpec::ArrayReadSpec(const ArrayReadSpecOptions& options) {
  Json kvstore = handlers::kvstore_spec({.directory = options.directory,
                                         .name = options.relative_array_filename,
                                         .use_ocdbt = options.use_ocdbt});
  Json spec = array_spec(options.use_zarr3, std::move(kvstore), options.metadata_key);
  spec.set("fill_missing_data_reads", !options.raise_array_data_missing_error);
  if (options.target_dtype) spec = cast_spec(std::move(spec), *options.target_dtype);
  json_ = to_text(spec);
}

ArrayWriteSpec::ArrayWriteSpec(const ArrayWriteSpecOptions& options) {
  Json kvstore = handlers::kvstore_spec(store_options(options));
  const DType stored = options.target_dtype.value_or(options.dtype);
  metadata_ = {.param_name = options.relative_array_filename,
               .shape = options.global_shape,
               .dtype = stored,
               .write_shape = options.write_shape,
               .chunk_shape = chunk_shape_of(options, stored, kvstore),
               .use_ocdbt = options.use_ocdbt,
               .use_zarr3 = options.use_zarr3,
               .ext_metadata = options.ext_metadata};
  if (options.use_compression) {
    metadata_.compression_algorithm = "zstd";
    metadata_.compression_level = options.use_zarr3 ? 3 : 1;
  }
  Json spec = array_spec(options.use_zarr3, std::move(kvstore), options.metadata_key);
  spec.set("store_data_equal_to_fill_value", true);
  spec.set("metadata", options.use_zarr3 ? zarr3_metadata(metadata_) : zarr2_metadata(metadata_));
  spec.set("dtype", name_of(stored));
  if (stored != options.dtype) spec = cast_spec(std::move(spec), options.dtype);
  json_ = to_text(spec);
}

}  // namespace cairn::inline v0
