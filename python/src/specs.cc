// specs.cc -- binds array_spec.h; specs travel as JSON.
#include "specs.h"

#include "values/text.h"

#include <cairn/error.h>
#include <cairn/orbax/array_spec.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

DType dtype_of(const std::string& name) {
  const auto dtype = dtype_from_name(name);
  if (!dtype) throw Error(Code::kInvalidArgument, "dtype: unknown type '" + name + "'");
  return *dtype;
}

std::optional<DType> dtype_of(const std::optional<std::string>& name) {
  return name ? std::optional(dtype_of(*name)) : std::nullopt;
}

OcdbtWriteMode write_mode(const std::string& name) {
  if (name == "write") return OcdbtWriteMode::kWrite;
  if (name == "merge") return OcdbtWriteMode::kMerge;
  if (name == "commit_temporary") return OcdbtWriteMode::kCommitTemporary;
  throw Error(Code::kInvalidArgument, "mode: '" + name + "' is not a mode of writing");
}

// `process`: (id, use_replica_suffix). `write`: (mode, target_data_file_size, separately).
std::string kvstore_spec(std::string directory, std::optional<std::string> name, bool use_ocdbt,
                         const nb::object& process, const nb::object& write,
                         std::optional<std::string> temporary_metadata) {
  KvStoreSpecOptions options{.directory = std::move(directory),
                             .name = std::move(name),
                             .use_ocdbt = use_ocdbt,
                             .temporary_metadata = std::move(temporary_metadata)};
  if (!process.is_none())
    options.process = OcdbtProcessSpec{.process_id = nb::cast<std::string>(process[0]),
                                       .use_replica_suffix = nb::cast<bool>(process[1])};
  if (!write.is_none())
    options.write =
        OcdbtWriteOptions{.mode = write_mode(nb::cast<std::string>(write[0])),
                          .target_data_file_size = nb::cast<std::optional<std::int64_t>>(write[1]),
                          .store_ocdbt_metadata_and_values_separately = nb::cast<bool>(write[2])};
  return build_kvstore_tspec(options);
}

std::string read_spec(std::string directory, std::string name, bool use_zarr3, bool use_ocdbt,
                      std::optional<std::string> metadata_key, bool raise_array_data_missing_error,
                      const std::optional<std::string>& target_dtype) {
  return ArrayReadSpec({.directory = std::move(directory),
                        .relative_array_filename = std::move(name),
                        .use_zarr3 = use_zarr3,
                        .use_ocdbt = use_ocdbt,
                        .metadata_key = std::move(metadata_key),
                        .raise_array_data_missing_error = raise_array_data_missing_error,
                        .target_dtype = dtype_of(target_dtype)})
      .json();
}

// The spec, the chunk shape, the compressor and its level.
nb::tuple write_spec(std::string directory, std::string name, const Shape& global_shape,
                     const Shape& write_shape, const std::string& dtype,
                     const std::optional<std::string>& target_dtype,
                     std::optional<std::int64_t> chunk_byte_size,
                     std::vector<std::int64_t> shard_axes, bool use_compression, bool use_zarr3,
                     bool use_ocdbt, std::optional<std::int64_t> target_file_bytes,
                     std::optional<std::string> process_id, std::optional<std::string> metadata_key,
                     bool replica_separate_folder, bool store_ocdbt_metadata_and_values_separately,
                     std::optional<std::string> temporary_metadata) {
  ArrayWriteSpecOptions options;
  options.directory = std::move(directory);
  options.relative_array_filename = std::move(name);
  options.global_shape = global_shape;
  options.write_shape = write_shape;
  options.dtype = dtype_of(dtype);
  options.target_dtype = dtype_of(target_dtype);
  options.chunk_byte_size = chunk_byte_size;
  options.shard_axes = std::move(shard_axes);
  options.use_compression = use_compression;
  options.use_zarr3 = use_zarr3;
  options.use_ocdbt = use_ocdbt;
  options.ocdbt_target_data_file_size = target_file_bytes;
  options.process_id = std::move(process_id);
  options.metadata_key = std::move(metadata_key);
  options.replica_separate_folder = replica_separate_folder;
  options.store_ocdbt_metadata_and_values_separately = store_ocdbt_metadata_and_values_separately;
  options.temporary_metadata = std::move(temporary_metadata);
  const ArrayWriteSpec spec(options);
  const ArrayMetadata& made = spec.metadata();
  return nb::make_tuple(spec.json(), made.chunk_shape, made.compression_algorithm,
                        made.compression_level);
}

void define_array_specs(nb::module_& module) {
  module.def("array_read_spec", read_spec, nb::kw_only(), nb::arg("directory"), nb::arg("name"),
             nb::arg("use_zarr3"), nb::arg("use_ocdbt"), nb::arg("metadata_key").none(),
             nb::arg("raise_array_data_missing_error"), nb::arg("target_dtype").none());
  module.def(
      "array_write_spec", write_spec, nb::kw_only(), nb::arg("directory"), nb::arg("name"),
      nb::arg("global_shape"), nb::arg("write_shape"), nb::arg("dtype"),
      nb::arg("target_dtype").none(), nb::arg("chunk_byte_size").none(), nb::arg("shard_axes"),
      nb::arg("use_compression"), nb::arg("use_zarr3"), nb::arg("use_ocdbt"),
      nb::arg("target_file_bytes").none(), nb::arg("process_id").none(),
      nb::arg("metadata_key").none(), nb::arg("replica_separate_folder"),
      nb::arg("store_ocdbt_metadata_and_values_separately"), nb::arg("temporary_metadata").none());
  module.def(
      "cast_spec_to_write",
      [](const std::string& spec, const std::string& dtype,
         const std::optional<std::string>& target) {
        return get_cast_tspec_serialize(spec, dtype_of(dtype), dtype_of(target));
      },
      nb::arg("spec"), nb::arg("dtype"), nb::arg("target_dtype").none());
  module.def(
      "cast_spec_to_read",
      [](const std::string& spec, const std::string& dtype) {
        return get_cast_tspec_deserialize(spec, dtype_of(dtype));
      },
      nb::arg("spec"), nb::arg("dtype"));
}

void define_store_specs(nb::module_& module) {
  module.def("kvstore_spec", kvstore_spec, nb::kw_only(), nb::arg("directory"),
             nb::arg("name").none(), nb::arg("use_ocdbt"), nb::arg("process").none(),
             nb::arg("write").none(), nb::arg("temporary_metadata").none());
  module.def("sharding_spec", get_sharding_tensorstore_spec, nb::arg("directory"),
             nb::arg("param_name"));
  module.def(
      "is_remote_storage", [](const std::string& spec) { return is_remote_storage(spec); },
      nb::arg("spec"));
  module.def(
      "process_folder",
      [](std::string id, bool use_replica_suffix) {
        return OcdbtProcessSpec{.process_id = std::move(id),
                                .use_replica_suffix = use_replica_suffix}
            .folder();
      },
      nb::arg("process_id"), nb::arg("use_replica_suffix"));
  module.def(
      "parse_process_folder",
      [](const std::string& folder) {
        OcdbtProcessSpec found = OcdbtProcessSpec::parse(folder);
        return std::pair(std::move(found.process_id), found.use_replica_suffix);
      },
      nb::arg("folder"));
  module.def(
      "ts_context",
      [](bool use_ocdbt, std::optional<std::int64_t> file_io, std::optional<std::int64_t> copies) {
        return get_ts_context({.use_ocdbt = use_ocdbt,
                               .file_io_concurrency_limit = file_io,
                               .data_copy_concurrency_limit = copies});
      },
      nb::kw_only(), nb::arg("use_ocdbt"), nb::arg("file_io_concurrency_limit").none(),
      nb::arg("data_copy_concurrency_limit").none());
}

void define_sizes(nb::module_& module) {
  module.def(
      "choose_chunk_shape",
      [](const Shape& global_shape, const Shape& write_shape, const std::string& dtype,
         std::optional<std::int64_t> target_byte_size, std::vector<std::int64_t> shard_axes) {
        return choose_chunk_shape({.global_shape = global_shape,
                                   .write_shape = write_shape,
                                   .dtype = dtype_of(dtype),
                                   .target_byte_size = target_byte_size,
                                   .shard_axes = std::move(shard_axes)});
      },
      nb::kw_only(), nb::arg("global_shape"), nb::arg("write_shape"), nb::arg("dtype"),
      nb::arg("target_byte_size").none(), nb::arg("shard_axes"));
  module.def(
      "calculate_chunk_byte_size",
      [](const Shape& write_shape, const std::string& dtype,
         std::optional<std::int64_t> chunk_byte_size, std::optional<std::int64_t> target_file_bytes,
         std::optional<std::string> kvstore_spec) {
        return calculate_chunk_byte_size({.write_shape = write_shape,
                                          .dtype = dtype_of(dtype),
                                          .chunk_byte_size = chunk_byte_size,
                                          .ocdbt_target_data_file_size = target_file_bytes,
                                          .kvstore_spec = std::move(kvstore_spec)});
      },
      nb::kw_only(), nb::arg("write_shape"), nb::arg("dtype"), nb::arg("chunk_byte_size").none(),
      nb::arg("target_file_bytes").none(), nb::arg("kvstore_spec").none());
}

nb::object tuple_of_shape(const Shape& shape) {
  nb::list extents;
  for (const std::int64_t extent : shape) extents.append(extent);
  return nb::tuple(extents);
}

}  // namespace

nb::object facts_of(const std::optional<ZarrMetadata>& found) {
  if (!found) return nb::none();
  const auto& compression = found->compression;
  const nb::object level =
      compression && compression->level ? nb::object(nb::int_(*compression->level)) : nb::none();
  return nb::make_tuple(
      found->zarr_format, tuple_of_shape(found->shape), to_str(found->dtype),
      tuple_of_shape(found->chunk_shape),
      compression ? nb::object(nb::make_tuple(to_str(compression->algorithm), level)) : nb::none(),
      to_str(found->order), to_str(found->dimension_separator),
      found->inner_chunk_shape ? tuple_of_shape(*found->inner_chunk_shape) : nb::none());
}

void define_specs(nb::module_& module) {
  define_array_specs(module);
  define_store_specs(module);
  define_sizes(module);
  module.def(
      "zarr_metadata_from_json",
      [](const std::string& text) { return facts_of(zarr_metadata_from_json(text)); },
      nb::arg("text"));
}

}  // namespace cairn::python
