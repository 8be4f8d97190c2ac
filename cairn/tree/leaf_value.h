// leaf_value.h -- a leaf of a checkpoint, once it is read, as the tree holds it.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tree.h>

#include <string_view>

namespace cairn {

// Whether a leaf is a Python or NumPy scalar, and not an array of rank 0.
bool is_scalar_leaf(const TensorInfo& tensor);
// `array` holds the tensor's elements: itself, or the scalar or bytes that it stands for.
Tree array_leaf(const TensorInfo& tensor, Array array);
// Of a leaf without elements and text: an empty node, or a placeholder.
Tree empty_leaf(std::string_view kind);

}  // namespace cairn
