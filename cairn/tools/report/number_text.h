// number_text.h -- formats the elements of a small array as strings of equal width, aligned as
// NumPy does.
#pragma once

#include <cairn/types.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

// Returns one string for each element, in C order. Floats show the fewest digits that identify the
// value within its type, at most `max_decimals` after the point. All elements have one style, fixed
// or scientific.
std::vector<std::string> element_texts(const ArrayView& array, int max_decimals);

}  // namespace cairn::inline v0
