// reader.h -- an opened checkpoint, for cairn._checkpoint.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Defines TensorInfo, Reader and open().
void define_reader(nanobind::module_& module);

}  // namespace cairn::python
