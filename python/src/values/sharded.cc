// sharded.cc -- shardings and sharded arrays from their descriptions.
#include "sharded.h"

#include "arrays.h"

#include <cairn/error.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

AxisType axis_type(const std::string& name) {
  if (name == "Auto") return AxisType::kAuto;
  if (name == "Explicit") return AxisType::kExplicit;
  if (name == "Manual") return AxisType::kManual;
  throw Error(Code::kInvalidArgument, "unknown type of a mesh axis: '" + name + "'");
}

NamedSharding named(nb::handle description) {
  NamedSharding sharding;
  sharding.mesh.shape = nb::cast<Shape>(description[1]);
  sharding.mesh.axis_names = nb::cast<std::vector<std::string>>(description[2]);
  if (const auto types = nb::cast<std::optional<std::vector<std::string>>>(description[3]))
    for (const std::string& name : *types) sharding.mesh.axis_types.push_back(axis_type(name));
  sharding.mesh.device_ids = nb::cast<std::vector<std::int64_t>>(description[4]);
  sharding.spec = nb::cast<PartitionSpec>(description[5]);
  return sharding;
}

ExplicitSharding explicit_sharding(nb::handle description) {
  ExplicitSharding sharding;
  for (const nb::handle part : description[1])
    sharding.parts.push_back(
        {nb::cast<std::int64_t>(part[0]),
         {nb::cast<std::vector<std::int64_t>>(part[1]), nb::cast<Shape>(part[2])}});
  return sharding;
}

ShardedArray sharded_array(Shape shape, const std::string& dtype, nb::handle sharding,
                           std::string random_key_impl, nb::handle shards) {
  ShardedArray array;
  array.shape = std::move(shape);
  const auto known = dtype_from_name(dtype);
  if (!known) throw Error(Code::kInvalidArgument, "unknown element type '" + dtype + "'");
  array.dtype = *known;
  array.sharding = sharding_from(sharding);
  array.random_key_impl = std::move(random_key_impl);
  for (const nb::handle part : shards) {
    ArrayShard& shard = array.shards.emplace_back();
    shard.device_id = nb::cast<std::int64_t>(part[0]);
    shard.box = {nb::cast<std::vector<std::int64_t>>(part[1]), nb::cast<Shape>(part[2])};
    shard.replica = nb::cast<std::int64_t>(part[3]);
    const nb::object values = part[4];
    if (values.is_none()) continue;
    const BorrowedArray borrowed = borrow(values);
    shard.source = HostMemory{borrowed.view(), keep_alive(borrowed.owner)};
  }
  return array;
}

}  // namespace

Sharding sharding_from(nb::handle description) {
  const auto kind = nb::cast<std::string>(description[0]);
  if (kind == "named") return named(description);
  if (kind == "single") return SingleDeviceSharding{nb::cast<std::string>(description[1])};
  if (kind == "explicit") return explicit_sharding(description);
  throw Error(Code::kInvalidArgument, "unknown kind of sharding: '" + kind + "'");
}

void define_sharded(nb::module_& module) {
  nb::class_<ShardedArray>(module, "ShardedArray", "An array whose parts lie on devices.")
      .def(
          "__init__",
          [](ShardedArray* self, Shape shape, const std::string& dtype, nb::handle sharding,
             std::string random_key_impl, nb::handle shards) {
            new (self) ShardedArray(sharded_array(std::move(shape), dtype, sharding,
                                                  std::move(random_key_impl), shards));
          },
          nb::arg("shape"), nb::arg("dtype"), nb::arg("sharding"), nb::arg("random_key_impl"),
          nb::arg("shards"));
}

}  // namespace cairn::python
