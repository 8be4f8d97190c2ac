// directories.h -- directories of checkpoints, for cairn.orbax.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Defines CheckpointDirectory, remove_checkpoint(), set_checkpoint_aside() and clean_json().
void define_directories(nanobind::module_& module);

}  // namespace cairn::python
