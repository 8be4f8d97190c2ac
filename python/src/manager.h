// manager.h -- the manager of a training run's steps, for cairn._manager.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Defines Manager.
void define_manager(nanobind::module_& module);

}  // namespace cairn::python
