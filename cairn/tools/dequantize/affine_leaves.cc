// affine_leaves.cc -- the quantised tensors of PyTorch, which Cairn shows as dicts of their parts.
#include <cairn/tools/dequantize/leaf_formats.h>

#include <cairn/base/errors.h>
#include <cairn/tools/dequantize/affine_array.h>

#include <fmt/format.h>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kIntegers = "int_repr";

// PyTorch's name of the type of the integers; "" if it has none.
std::string_view quantized_type(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return "quint8";
    case DType::kInt8:
      return "qint8";
    case DType::kInt32:
      return "qint32";
    case DType::kUint4:
      return "quint4x2";
    case DType::kUint2:
      return "quint2x4";
    default:
      return "";
  }
}

bool is_real(const TensorInfo& leaf) {
  return leaf.dtype == DType::kFloat32 || leaf.dtype == DType::kFloat64;
}
bool is_whole(const TensorInfo& leaf) {
  const DTypeKind kind = dtype_kind(leaf.dtype);
  return kind == DTypeKind::kInt || kind == DTypeKind::kUint;
}

[[noreturn]] void do_not_fit(const TensorInfo& integers, const TensorInfo& part) {
  data_loss(fmt::format("{}: {}, which does not fit {}, {}", part.full_name(), type_text(part),
                        integers.full_name(), type_text(integers)));
}

AffineParts per_tensor_parts(const LeafSearch& search, std::size_t i) {
  AffineParts parts{.integers = i,
                    .scale = search.leaves.required(i, kIntegers, "scale"),
                    .zero_point = search.leaves.required(i, kIntegers, "zero_point")};
  const TensorInfo& scale = search.leaves[parts.scale];
  const TensorInfo& zero = search.leaves[parts.zero_point];
  if (!is_real(scale) || !scale.shape.empty()) do_not_fit(search.leaves[i], scale);
  if (!is_whole(zero) || !zero.shape.empty()) do_not_fit(search.leaves[i], zero);
  return parts;
}

AffineParts per_channel_parts(const LeafSearch& search, std::size_t i) {
  const TensorInfo& integers = search.leaves[i];
  AffineParts parts{.integers = i,
                    .scale = search.leaves.required(i, kIntegers, "scales"),
                    .zero_point = search.leaves.required(i, kIntegers, "zero_points")};
  const std::size_t stored = search.leaves.required(i, kIntegers, "axis");
  const std::vector<std::int64_t>& axis = search.integers.at(stored);
  const auto rank = static_cast<std::int64_t>(integers.shape.size());
  if (axis.size() != 1 || axis[0] < 0 || axis[0] >= rank)
    data_loss(fmt::format("{}: is not an axis of {}, {}", search.leaves[stored].full_name(),
                          integers.full_name(), type_text(integers)));
  parts.axis = static_cast<std::size_t>(axis[0]);
  const TensorInfo& scales = search.leaves[parts.scale];
  const TensorInfo& zeros = search.leaves[parts.zero_point];
  const Shape channels = {integers.shape[*parts.axis]};
  if (!is_real(scales) || scales.shape != channels) do_not_fit(integers, scales);
  if (!(is_real(zeros) || is_whole(zeros)) || zeros.shape != channels) do_not_fit(integers, zeros);
  return parts;
}

}  // namespace

std::optional<DequantizedLeaf> find_affine(const LeafSearch& search, std::size_t i) {
  const TensorInfo& integers = search.leaves[i];
  if (integers.path.empty() || integers.path.back().text != kIntegers) return std::nullopt;
  const bool has_one = search.leaves.sibling(i, kIntegers, "scale").has_value();
  const bool has_more = search.leaves.sibling(i, kIntegers, "scales").has_value();
  if (!has_one && !has_more) return std::nullopt;  // a dict that only has this key
  const std::string_view type = quantized_type(integers.dtype);
  if (!is_array_of(integers, integers.dtype) || type.empty())
    data_loss(fmt::format("{}: {} are not the integers of a quantised tensor{}{}",
                          integers.full_name(), type_text(integers),
                          integers.error.empty() ? "" : ": ", integers.error));
  const AffineParts parts = has_one ? per_tensor_parts(search, i) : per_channel_parts(search, i);
  DequantizedLeaf leaf{.codes = i, .path = integers.path};
  leaf.path.pop_back();
  leaf.format = fmt::format("{}, {}", type, parts.axis ? "per channel" : "per tensor");
  leaf.array = lazy_affine(search.leaves.source(), parts, search.dtype.value_or(DType::kFloat32));
  leaf.parameters = {parts.scale, parts.zero_point};
  if (parts.axis) leaf.parameters.push_back(*search.leaves.sibling(i, kIntegers, "axis"));
  return leaf;
}

}  // namespace cairn::inline v0
