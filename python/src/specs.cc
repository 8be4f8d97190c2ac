// specs.cc -- binds array_spec.h; specs travel as JSON.
#include "specs.h"

#include <cairn/array_spec.h>
#include <cairn/error.h>

#include <nanobind/stl/optional.h>
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

using Extents = std::vector<std::int64_t>;

DType dtype_of(const std::string& name) {
  const auto dtype = dtype_from_name(name);
  if (!dtype) throw Error(Code::kInvalidArgument, "dtype: unknown type '" + name + "'");
  return *dtype;
}

std::string write_spec(std::string directory, std::string name, const Extents& global_shape,
                       const Extents& write_shape, const std::string& dtype,
                       const std::optional<std::string>& target_dtype,
                       std::optional<std::int64_t> chunk_byte_size, Extents shard_axes,
                       bool use_compression, bool use_zarr3, bool use_ocdbt,
                       std::optional<std::int64_t> target_file_bytes,
                       std::optional<std::string> process_id,
                       std::optional<std::string> metadata_key) {
  ArrayWriteSpecOptions options;
  options.directory = std::move(directory);
  options.relative_array_filename = std::move(name);
  options.global_shape.assign(global_shape.begin(), global_shape.end());
  options.write_shape.assign(write_shape.begin(), write_shape.end());
  options.dtype = dtype_of(dtype);
  if (target_dtype) options.target_dtype = dtype_of(*target_dtype);
  options.chunk_byte_size = chunk_byte_size;
  options.shard_axes = std::move(shard_axes);
  options.use_compression = use_compression;
  options.use_zarr3 = use_zarr3;
  options.use_ocdbt = use_ocdbt;
  options.ocdbt_target_data_file_size = target_file_bytes;
  options.process_id = std::move(process_id);
  options.metadata_key = std::move(metadata_key);
  return ArrayWriteSpec(options).json();
}

}  // namespace

void define_specs(nb::module_& module) {
  module.def("array_write_spec", write_spec, nb::kw_only(), nb::arg("directory"), nb::arg("name"),
             nb::arg("global_shape"), nb::arg("write_shape"), nb::arg("dtype"),
             nb::arg("target_dtype").none(), nb::arg("chunk_byte_size").none(),
             nb::arg("shard_axes"), nb::arg("use_compression"), nb::arg("use_zarr3"),
             nb::arg("use_ocdbt"), nb::arg("target_file_bytes").none(),
             nb::arg("process_id").none(), nb::arg("metadata_key").none());
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

}  // namespace cairn::python
