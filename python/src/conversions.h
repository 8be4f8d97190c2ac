// conversions.h -- convert, merge, repair and reshard, for cairn._maintenance.
#pragma once

#include <nanobind/nanobind.h>

namespace cairn::python {

// Defines convert_json(), merge_json(), repair_json() and reshard_json(). They return the JSON
// texts of the command of the same name (docs/reference/json.md).
void define_conversions(nanobind::module_& module);

}  // namespace cairn::python
