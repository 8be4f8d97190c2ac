// leaf_handlers.h -- handlers of leaves with options, for saves.
#pragma once

#include <cairn/orbax/handlers.h>

#include <nanobind/nanobind.h>

#include <memory>

namespace cairn::python {

// A registry of the standard handlers with options: a dict of dicts, "array", "numpy", "scalar" and
// "string", which have the names of Orbax's arguments. What is missing has its default. Throws
// invalid_argument for values that a handler refuses, nb::cast_error for other types.
std::shared_ptr<const TypeHandlerRegistry> leaf_handlers(const nanobind::dict& options);

}  // namespace cairn::python
