// tools.h -- verify, diff, convert and what lies in a directory, for cairn._tools.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Defines verify_json(), diff_json(), convert_json(), steps_json(). They return the JSON texts of
// the command of the same name (docs/cli.md).
void define_tools(nanobind::module_& module);

}  // namespace cairn::python
