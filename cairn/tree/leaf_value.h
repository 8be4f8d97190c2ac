// leaf_value.h -- converts a leaf that has been read from a checkpoint to a leaf of the tree, and a
// scalar of NumPy to the array that stores it.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tree.h>

#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Throws the error for which a leaf cannot be read; `name` is for it. A described array that has an
// error is not damaged: Cairn cannot read its type.
void check_readable(const std::string& name, const TensorInfo& tensor);
// Whether a leaf is a Python or NumPy scalar, as opposed to an array of rank 0.
bool is_scalar_leaf(const TensorInfo& tensor);
// Returns `array`, which holds the tensor's elements, as the tree holds it: as the array itself, or
// as the scalar or bytes that it encodes.
Tree array_leaf(const TensorInfo& tensor, Array array);
// Returns the array of rank 0 that holds the scalar.
Array array_of(const NumpyScalar& scalar);
// The tree for a leaf without elements and without a string: an empty node or a placeholder.
Tree empty_leaf(std::string_view kind);

}  // namespace cairn::inline v0
