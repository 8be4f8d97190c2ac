// scaled_array.h -- weights that are stored as small codes with a scale for each block:
//
//   weight[i] = (code[i] - zero_point[block]) * scale[block]
//
// computed in float32, and rounded once to the type of the result. Reading a box reads the codes,
// the scales and the zero points of that box.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tools/dequantize/codes.h>
#include <cairn/tools/transform/lazy_array.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace cairn::inline v0 {

// How zero points are stored.
enum class ZeroPoints : std::uint8_t {
  kNumbers,  // one for each scale, in an array of the scale's shape
  kPacked    // as codes of the weight's packing, along the axis before the last one
};

// The stored arrays of a weight, by their indices, and how they belong together. The caller has
// checked that their shapes fit.
struct ScaledCodes {
  std::size_t codes = 0;
  CodePacking packing = CodePacking::kElements;
  // Of the weight. The codes have the same shape, but for the last axis: it has codes_per_element
  // times fewer elements, rounded up. kFloat4: the last axis is two, the second one of 16 bytes.
  Shape shape;
  std::size_t scale = 0;
  // Extents of the block that shares a scale, one an axis, at least 1. The scales have the shape of
  // the blocks. Empty: one scale for all.
  Shape blocks = {};
  std::optional<std::size_t> zero_point = {};
  ZeroPoints zero_points = ZeroPoints::kNumbers;
  // An int32 for each index of the last axis: the index of its scale along that axis. All -1: as
  // `blocks` says.
  std::optional<std::size_t> group_index = {};
};

// The weight in a floating type. A read throws data_loss, naming the array, for a group index that
// is outside of the scales.
LazyPtr lazy_scaled(const Checkpoint& source, ScaledCodes codes, DType dtype);

}  // namespace cairn::inline v0
