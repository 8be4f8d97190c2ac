// saver.h -- saves, for cairn._save.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Defines save(), save_file() and BackgroundSave.
void define_saver(nanobind::module_& module);

}  // namespace cairn::python
