// reader.h -- an opened checkpoint, for cairn._checkpoint.
#pragma once

#include <cairn/checkpoint.h>

#include <nanobind/nanobind.h>

#include <memory>

namespace cairn::python {

// Defines TensorInfo, Reader and open().
void define_reader(nanobind::module_& module);
// The checkpoint of a Reader; null for any other object.
std::shared_ptr<const Checkpoint> checkpoint_of(nanobind::handle reader);

}  // namespace cairn::python
