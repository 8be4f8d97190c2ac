// handlers.h -- binds PyTreeCheckpointHandler, with which cairn.orbax writes the files of one tree.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Defines TreeHandler and PendingWrite.
void define_handlers(nanobind::module_& module);

}  // namespace cairn::python
