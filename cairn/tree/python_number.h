// python_number.h -- numbers of Python and NumPy: elements to numbers, and numbers to arrays.
#pragma once

#include <cairn/tree.h>
#include <cairn/types.h>

#include <optional>

namespace cairn::inline v0 {

// Returns a bool, int, float or complex, as NumPy's item(). `element` has rank 0. An element that
// has no Python number (kOpaque) stays an array.
Tree python_number(const Array& element);
// The number of a leaf and the dtype that numpy.asarray gives it: bool, int64, uint64, float64,
// complex128, or that of a NumPy scalar. nullopt for a leaf that is not a number.
std::optional<NumpyScalar> number_of(const Tree& leaf);
// The number as an array of rank 0.
Array rank_0(const NumpyScalar& number);

}  // namespace cairn::inline v0
