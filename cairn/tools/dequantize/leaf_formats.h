// leaf_formats.h -- the formats of quantised weights: for each, whether a leaf holds the codes of a
// weight, what belongs to it, and whether all parts fit each other.
#pragma once

#include <cairn/tools/dequantize/model_config.h>
#include <cairn/tools/dequantize/named_leaves.h>
#include <cairn/tools/dequantize/quantized_leaves.h>

#include <cstddef>
#include <optional>

namespace cairn::inline v0 {

// Where the parts of a weight are looked for.
struct LeafSearch {
  const NamedLeaves& leaves;
  const StoredIntegers& integers;
  const ModelConfig& config;
  std::optional<DType> dtype;  // of the weights; none: that of the format
};

// Each returns nothing for a leaf that is not the codes of such a weight. Errors as
// find_quantized().
std::optional<DequantizedLeaf> find_scaled(const LeafSearch& search, std::size_t i);
std::optional<DequantizedLeaf> find_mxfp4(const LeafSearch& search, std::size_t i);
std::optional<DequantizedLeaf> find_packed(const LeafSearch& search, std::size_t i);
std::optional<DequantizedLeaf> find_affine(const LeafSearch& search, std::size_t i);

// Throws unimplemented, naming the format, for a leaf of GPTQ, AWQ, bitsandbytes or NVFP4.
void refuse_format_of(const NamedLeaves& leaves, std::size_t i);
// Throws invalid_argument for scales; no weight uses leaf `i`.
void refuse_alone(const NamedLeaves& leaves, std::size_t i);
// Throws unimplemented, naming it, for a method of config.json that Cairn does not read.
void refuse_other_method(const ModelConfig& config);

// Whether it is an array of this type that can be read.
bool is_array_of(const TensorInfo& leaf, DType dtype);
// Whether the name ends so; a dot may be the border of two keys.
bool name_ends_with(const TensorInfo& leaf, std::string_view end);
// Floats of 8 bits with a mantissa.
bool is_float8(DType dtype);
// "int32(2, 3)"
std::string type_text(const TensorInfo& leaf);

}  // namespace cairn::inline v0
