// python_number.h -- converts one element to the Python number that NumPy's item() returns.
#pragma once

#include <cairn/tree.h>
#include <cairn/types.h>

namespace cairn::inline v0 {

// Returns a bool, int, float or complex. `element` has rank 0. An element that has no Python number
// (kOpaque) stays an array.
Tree python_number(const Array& element);

}  // namespace cairn::inline v0
