// stores.h -- the values of an object store, for the paths of cairn.orbax.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Defines Store and StoreAppender.
void define_stores(nanobind::module_& module);

}  // namespace cairn::python
