// tensorflow.h -- binds tensorflow.h of the library: the sharding of TensorFlow checkpoints, and
// their writer.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

void define_tensorflow(nanobind::module_& module);

}  // namespace cairn::python
