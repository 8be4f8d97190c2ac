// slice_spec.h -- how TensorFlow says which slice of a tensor is saved or restored: "4 3 5
// 0,4:-:3,2" is [0:4, 0:3, 3:5] of shape (4, 3, 5).
//
// The extents of the whole tensor, each followed by a blank; then for each dimension where the
// slice begins and how many it has of it, or "-" for all of it, with colons between. An empty text
// is all of a tensor; it is also the only one of a tensor of rank 0.
#pragma once

#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/types.h>

#include <string>
#include <string_view>

namespace cairn {

struct ShapeAndSlice {
  Shape full_shape;
  TensorSlice slice;  // as many dimensions; keeps which of them were "-"
  bool operator==(const ShapeAndSlice&) const = default;
};

// Throws invalid_argument, in TensorFlow's words, for what is no such text (an empty one is none
// either: it names no shape); for a slice of another rank than its tensor, or that does not lie
// within it.
ShapeAndSlice parse_slice_spec(std::string_view text);
std::string slice_spec_text(const ShapeAndSlice& spec);
// The slice in the coordinates of the whole tensor.
Box slice_box(const ShapeAndSlice& spec);

}  // namespace cairn
