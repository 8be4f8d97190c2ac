// leaf_value.h -- converts a leaf that has been read from a checkpoint to a leaf of the tree, and a
// scalar of NumPy to the array that stores it.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tree.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Throws the error for which a leaf cannot be read; `name` is for it. A described array that has an
// error is not damaged: Cairn cannot read its type.
void check_readable(const std::string& name, const TensorInfo& tensor);
// Whether a leaf is a Python or NumPy scalar, as opposed to an array of rank 0.
bool is_scalar_leaf(const TensorInfo& tensor);
// The types of leaves that are a list or a tuple of very many numbers, stored as one array.
inline constexpr std::string_view kListOfNumbers = "list of numbers";
inline constexpr std::string_view kTupleOfNumbers = "tuple of numbers";
// Whether array_leaf() makes such a list or tuple of the leaf.
bool is_number_list(const TensorInfo& tensor);
// Returns `array`, which holds the tensor's elements, as the tree holds it: as the array itself, or
// as the scalar, bytes or list that it encodes.
Tree array_leaf(const TensorInfo& tensor, Array array);
// Returns the strings of an array of strings, in C order, as lists of its shape.
Tree strings_leaf(const TensorInfo& tensor, std::vector<std::string> strings);
// Returns the array of rank 0 that holds the scalar.
Array array_of(const NumpyScalar& scalar);
// The tree for a leaf without elements and without a string: an empty node or a placeholder.
Tree empty_leaf(std::string_view kind);

}  // namespace cairn::inline v0
