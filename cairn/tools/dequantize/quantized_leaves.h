// quantized_leaves.h -- finds the quantised weights of a checkpoint by the names, types and shapes
// of its leaves.
//
//   names                                              format
//   X, X_scale_inv or X_scale; Y.weight, Y.scale       float8 or int8 codes, with a scale a block
//   X_blocks, X_scales; X.blocks, X.scales             MXFP4
//   Y.weight_packed, Y.weight_scale, Y.weight_shape,   codes of 4 or 8 bits in int32
//     Y.weight_zero_point, Y.weight_g_idx                (compressed-tensors, pack-quantized)
//   X.int_repr, X.scale(s), X.zero_point(s), X.axis    a quantised tensor of PyTorch
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tools/dequantize/model_config.h>
#include <cairn/tools/transform/lazy_array.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// A weight that is computed from quantised leaves.
struct DequantizedLeaf {
  std::size_t codes = 0;  // the stored leaf that it takes the place of
  KeyPath path;
  std::string format;  // "fp8, blocks of 128 x 128"
  LazyPtr array;
  // The stored leaves that have no place in the result: scales, zero points.
  std::vector<std::size_t> parameters;
};

// Finds all of them, in the order of their codes. `dtype`: of the weights; none: that of the
// configuration, else bfloat16, or float32 for tensors of PyTorch. Reads the shapes that are stored
// as leaves. Throws, naming the leaf: invalid_argument for a weight without scales, scales without
// a weight, and blocks whose size is ambiguous; data_loss for parts of wrong types and shapes;
// unimplemented, naming it, for a format that is known and not read.
std::vector<DequantizedLeaf> find_quantized(const Checkpoint& source, const ModelConfig& config,
                                            std::optional<DType> dtype);

}  // namespace cairn::inline v0
