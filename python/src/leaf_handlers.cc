// leaf_handlers.cc -- makes handlers of leaves from the options that Python gives.
#include "leaf_handlers.h"

#include <cairn/orbax/handlers.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>

namespace nb = nanobind;

namespace cairn::python {
namespace {

// Sets an option if the caller gives it.
template <typename T>
void set_from(const nb::dict& options, const char* name, T& out) {
  if (options.contains(name)) out = nb::cast<T>(options[name]);
}

nb::dict part(const nb::dict& options, const char* name) {
  return options.contains(name) ? nb::cast<nb::dict>(options[name]) : nb::dict();
}

ArrayHandler::Options array_options(const nb::dict& given) {
  ArrayHandler::Options out;
  set_from(given, "metadata_key", out.metadata_key);
  set_from(given, "replica_id", out.replica_id);
  set_from(given, "use_replica_parallel", out.use_replica_parallel);
  set_from(given, "min_slice_bytes_for_replica_parallel", out.min_slice_bytes_for_replica_parallel);
  set_from(given, "max_replicas_for_replica_parallel", out.max_replicas_for_replica_parallel);
  set_from(given, "enable_write_sharding_file", out.enable_write_sharding_file);
  set_from(given, "enable_replica_parallel_separate_folder",
           out.enable_replica_parallel_separate_folder);
  set_from(given, "keep_array_metadata", out.keep_array_metadata);
  return out;
}

NumpyHandler::Options numpy_options(const nb::dict& given) {
  NumpyHandler::Options out;
  set_from(given, "metadata_key", out.metadata_key);
  set_from(given, "deepcopy_host_arrays", out.deepcopy_host_arrays);
  return out;
}

}  // namespace

std::shared_ptr<const TypeHandlerRegistry> leaf_handlers(const nb::dict& options) {
  ScalarHandler::Options scalar;
  set_from(part(options, "scalar"), "metadata_key", scalar.metadata_key);
  StringHandler::Options string;
  set_from(part(options, "string"), "filename", string.filename);
  auto out = std::make_shared<TypeHandlerRegistry>();
  const auto number = std::make_shared<ScalarHandler>(scalar);
  for (const std::type_index type :
       {std::type_index(typeid(std::int64_t)), std::type_index(typeid(double)),
        std::type_index(typeid(Bytes)), std::type_index(typeid(NumpyScalar))})
    out->add(type, number, {nullptr, true, {}});
  out->add(typeid(Array), std::make_shared<NumpyHandler>(numpy_options(part(options, "numpy"))));
  out->add(typeid(ShardedArray),
           std::make_shared<ArrayHandler>(array_options(part(options, "array"))));
  out->add(typeid(std::string), std::make_shared<StringHandler>(string));
  out->add(typeid(Placeholder), std::make_shared<PlaceholderHandler>());
  return out;
}

}  // namespace cairn::python
