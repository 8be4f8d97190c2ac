// tools.h -- verify, diff, the steps of a directory and its maintenance, for cairn._tools and
// cairn._maintenance.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Defines verify_json(), diff_json(), steps_json(), prune_json(), clean_json() and compact_json().
// They return the JSON texts of the command of the same name (docs/reference/json.md).
void define_tools(nanobind::module_& module);

}  // namespace cairn::python
