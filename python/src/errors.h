// errors.h -- how errors of the library arrive in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Makes cairn.CorruptionError, and lets each cairn::Error arrive as the Python exception of its
// code: ValueError, FileNotFoundError, FileExistsError, RuntimeError, CorruptionError,
// NotImplementedError, IndexError or OSError. The text of the exception is the whole message.
void define_errors(nanobind::module_& module);

}  // namespace cairn::python
