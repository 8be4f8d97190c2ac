// policies.h -- binds step_policies.h.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

void define_policies(nanobind::module_& module);

}  // namespace cairn::python
