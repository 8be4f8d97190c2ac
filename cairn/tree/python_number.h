// python_number.h -- one element as the Python number that NumPy's item() makes of it.
#pragma once

#include <cairn/tree.h>
#include <cairn/types.h>

namespace cairn {

// bool, int, float or complex. `element` has rank 0. What Python has no number for (kOpaque) stays
// an array.
Tree python_number(const Array& element);

}  // namespace cairn
