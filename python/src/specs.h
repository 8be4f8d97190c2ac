// specs.h -- TensorStore specs for programs that open arrays with TensorStore.
#pragma once

#include <cairn/checkpoint.h>

#include <nanobind/nanobind.h>

#include <optional>

namespace cairn::python {

// What the Zarr metadata of an array says, as the arguments of zarr_metadata.from_native() in
// Python; None where there is none.
nanobind::object facts_of(const std::optional<ZarrMetadata>& found);

void define_specs(nanobind::module_& module);

}  // namespace cairn::python
