// other_formats.cc -- what is quantised, but not in a way that Cairn computes.
#include <cairn/tools/dequantize/leaf_formats.h>

#include <cairn/base/errors.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cairn::inline v0 {
namespace {

[[noreturn]] void refuse_format(const TensorInfo& leaf, std::string_view format) {
  throw Error(Code::kUnimplemented,
              fmt::format("{}: is quantised by {}, which Cairn does not dequantise",
                          leaf.full_name(), format));
}

// AWQ packs columns, GPTQ rows: the other axis is that of the scales.
std::string_view packed_by(const NamedLeaves& leaves, std::size_t i) {
  const auto scales = leaves.sibling(i, "qweight", "scales");
  if (leaves.sibling(i, "qweight", "g_idx") || !scales) return "GPTQ";
  const Shape& codes = leaves[i].shape;
  const Shape& shape = leaves[*scales].shape;
  return !codes.empty() && !shape.empty() && codes.back() != shape.back() ? "AWQ" : "GPTQ";
}

}  // namespace

void refuse_format_of(const NamedLeaves& leaves, std::size_t i) {
  const TensorInfo& leaf = leaves[i];
  if (!leaf.is_array()) return;
  if (name_ends_with(leaf, "qweight") && leaves.sibling(i, "qweight", "qzeros"))
    refuse_format(leaf, packed_by(leaves, i));
  if (name_ends_with(leaf, ".SCB") || name_ends_with(leaf, ".quant_map") ||
      leaf.name.find(".quant_state.bitsandbytes__") != std::string::npos)
    refuse_format(leaf, "bitsandbytes");
  if (is_float8(leaf.dtype) && name_ends_with(leaf, "weight_scale")) refuse_format(leaf, "NVFP4");
}

void refuse_alone(const NamedLeaves& leaves, std::size_t i) {
  const TensorInfo& leaf = leaves[i];
  const bool is_scale = leaf.is_array() && name_ends_with(leaf, "_scale_inv");
  const bool is_mxfp4 = is_array_of(leaf, DType::kUint8) &&
                        (name_ends_with(leaf, "_scales") || name_ends_with(leaf, ".scales"));
  if (is_scale || is_mxfp4)
    invalid_argument(leaf.full_name() +
                     ": scales without the codes of a weight, which may lie in a file that is "
                     "missing");
}

void refuse_other_method(const ModelConfig& config) {
  constexpr std::array<std::string_view, 5> kRead = {"fp8", "fbgemm_fp8", "mxfp4",
                                                     "compressed-tensors", "modelopt"};
  if (config.method.empty() || std::ranges::find(kRead, config.method) != kRead.end()) return;
  throw Error(Code::kUnimplemented,
              fmt::format("config.json: the model is quantised by {}, which Cairn does not "
                          "dequantise",
                          config.method));
}

}  // namespace cairn::inline v0
