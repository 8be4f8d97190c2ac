// named_arrays.h -- a tree as the files of safetensors and npz hold it: arrays with names.
#pragma once

#include <cairn/tensor_source.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <vector>

namespace cairn::inline v0 {

// The arrays of a tree under their names, "params.dense.kernel". Numbers become arrays of rank 0,
// as numpy.asarray makes them. Empty containers have no array.
struct NamedArrays {
  // Throws invalid_argument, naming the leaf, for a leaf that is neither an array nor a number.
  explicit NamedArrays(const Tree& tree);
  // Fetches from the arrays, which must outlive the function.
  [[nodiscard]] FetchFn fetch() const;

  std::vector<TensorSource> sources;
  std::vector<Array> arrays;  // parallel to sources
};

}  // namespace cairn::inline v0
