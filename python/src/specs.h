// specs.h -- TensorStore specs for programs that open arrays with TensorStore.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

void define_specs(nanobind::module_& module);

}  // namespace cairn::python
