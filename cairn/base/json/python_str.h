// python_str.h -- a JSON value as Python's str() shows the object that TensorStore makes of it.
#pragma once

#include <cairn/base/json/json.h>

#include <string>

namespace cairn::inline v0 {

// {"b": [1, true], "a": null} is "{'a': None, 'b': [1, True]}": the members are sorted, and the last
// of equal ones counts. A string itself is its text. Integers beyond 64 bits are doubles.
std::string python_str(const Json& json);

}  // namespace cairn::inline v0
