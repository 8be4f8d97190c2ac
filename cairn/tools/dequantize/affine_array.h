// affine_array.h -- the quantised tensors of PyTorch: (integer - zero point) * scale, with one pair
// of them for the tensor or for each index of an axis. The numbers are those of its dequantize(),
// bit for bit:
//
//   per tensor    float32(scale) * float32(int32(integer - zero point))
//   per channel   (float32(integer) - float32(zero point)) * scale, in the type of the scales
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tools/transform/lazy_array.h>

#include <cstddef>
#include <optional>

namespace cairn::inline v0 {

// The stored arrays of a tensor, by their indices. The caller has checked that their shapes fit.
struct AffineParts {
  std::size_t integers = 0;
  std::size_t scale = 0;       // float64 or float32: of rank 0, or one for each index of the axis
  std::size_t zero_point = 0;  // numbers of any type, of the same shape
  std::optional<std::size_t> axis = {};
};

// The tensor in a floating type: float32, rounded once if it is another one.
LazyPtr lazy_affine(const Checkpoint& source, AffineParts parts, DType dtype);

}  // namespace cairn::inline v0
