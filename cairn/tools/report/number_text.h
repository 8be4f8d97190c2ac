// number_text.h -- the elements of a small array as texts of one width, as NumPy lines them up.
#pragma once

#include <cairn/types.h>

#include <string>
#include <vector>

namespace cairn {

// One text an element, in C order. Floats show the fewest digits that name the value among those of
// its type, at most `max_decimals` behind the point; one style (fixed or scientific) for all of
// them.
std::vector<std::string> element_texts(const ArrayView& array, int max_decimals);

}  // namespace cairn
