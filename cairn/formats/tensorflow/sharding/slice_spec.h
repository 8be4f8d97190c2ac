// slice_spec.h -- TensorFlow's notation for the slice of a tensor to save or restore: "4 3 5
// 0,4:-:3,2" is [0:4, 0:3, 3:5] of shape (4, 3, 5).
//
// The notation lists the extents of the whole tensor, each followed by a blank. Then it has, for
// each dimension, the start and the length of the slice, or "-" for the whole dimension, separated
// by colons. An empty string means the whole tensor; it is the only notation for rank 0.
#pragma once

#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/types.h>

#include <string>
#include <string_view>

namespace cairn::inline v0 {

// The shape of a whole tensor and a slice of it.
struct ShapeAndSlice {
  Shape full_shape;
  TensorSlice slice;  // has the same rank; keeps which dimensions were "-"
  bool operator==(const ShapeAndSlice&) const = default;
};

// Parses the notation. Throws invalid_argument, in TensorFlow's words, if it is malformed, if the
// slice has another rank than the tensor, or if it does not lie within it. The empty string is
// refused too: it states no shape.
ShapeAndSlice parse_slice_spec(std::string_view text);
// Formats a slice in this notation.
std::string slice_spec_text(const ShapeAndSlice& spec);
// The slice as a box in the coordinates of the whole tensor.
Box slice_box(const ShapeAndSlice& spec);

}  // namespace cairn::inline v0
