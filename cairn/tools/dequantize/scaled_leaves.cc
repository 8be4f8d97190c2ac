// scaled_leaves.cc -- weights of small codes with scales: float8, int8, MXFP4, and the packed
// integers of compressed-tensors.
#include <cairn/tools/dequantize/leaf_formats.h>

#include <cairn/base/errors.h>
#include <cairn/tools/dequantize/block_extents.h>
#include <cairn/tools/dequantize/scaled_array.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr DType kDefaultType = DType::kBfloat16;
constexpr std::int64_t kMxfp4Bytes = 16;  // of a group
constexpr std::int64_t kMxfp4Group = 32;  // codes
constexpr std::int64_t kMostElements = std::int64_t{1} << 58U;

// The path without the end of the name.
KeyPath without_end(const TensorInfo& leaf, std::string_view end) {
  KeyPath path = leaf.path;
  std::string& key = path.back().text;
  if (key.size() < end.size())
    path.pop_back();  // the end is a key of its own, behind a dot
  else
    key.resize(key.size() - end.size());
  return path;
}

void check_scale_type(const TensorInfo& scale) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBfloat16, DType::kFloat16, DType::kUint8, DType::kFloat8E8m0fnu})
    if (scale.dtype == dtype) return;
  data_loss(fmt::format("{}: scales of type {}; expected float32, bfloat16, float16 or E8M0",
                        scale.full_name(), scale.dtype_name));
}

// Whether a leaf may be a scale; others of that name are not of a quantised weight.
bool is_scale(const TensorInfo& leaf) {
  return leaf.is_array() &&
         (dtype_kind(leaf.dtype) == DTypeKind::kFloat || leaf.dtype == DType::kUint8);
}

// Adds the leaves that a weight has beside its scales, and that mean nothing without codes: those
// of its module's inputs and outputs.
void add_activation_parameters(const NamedLeaves& leaves, std::size_t i, std::string_view weight,
                               std::vector<std::size_t>& parameters) {
  for (const char* name : {"input_scale", "input_zero_point", "input_global_scale", "output_scale",
                           "output_zero_point"})
    if (const auto found = leaves.sibling(i, weight, name)) parameters.push_back(*found);
}

DequantizedLeaf made(const LeafSearch& search, ScaledCodes spec, KeyPath path, std::string format) {
  const std::string name = search.leaves[spec.codes].full_name();
  if (with_context([&] { return name; }, [&] { return element_count(spec.shape); }) > kMostElements)
    data_loss(name + ": has more elements than any memory");
  DequantizedLeaf leaf{.codes = spec.codes, .path = std::move(path), .format = std::move(format)};
  leaf.array =
      lazy_scaled(search.leaves.source(), std::move(spec), search.dtype.value_or(kDefaultType));
  leaf.array->add_sources(leaf.parameters);
  std::erase(leaf.parameters, leaf.codes);
  return leaf;
}

std::optional<std::size_t> scale_of(const LeafSearch& search, std::size_t i) {
  for (const char* end : {"_scale_inv", "_scale"})
    if (const auto found = search.leaves.sibling(i, "", end);
        found && is_scale(search.leaves[*found]))
      return search.leaves.readable(i, "", end);
  if (const auto found = search.leaves.sibling(i, ".weight", ".scale");
      found && is_scale(search.leaves[*found]))
    return search.leaves.readable(i, ".weight", ".scale");
  return std::nullopt;
}

// ---- the packed integers of compressed-tensors ----

constexpr std::string_view kPacked = "weight_packed";
constexpr std::int64_t kWordBits = 32;

// Words of a row of codes, which are packed without gaps.
std::int64_t words_of(std::int64_t codes, std::int64_t bits) {
  return codes / kWordBits * bits + (codes % kWordBits * bits + kWordBits - 1) / kWordBits;
}

// The shape of the weight, which must be that of the words but for the last axis.
Shape packed_shape(const LeafSearch& search, std::size_t i) {
  const TensorInfo& words = search.leaves[i];
  const std::size_t stored = search.leaves.required(i, kPacked, "weight_shape");
  const Shape& shape = search.integers.at(stored);
  const auto fits = [&] {
    return std::equal(shape.begin(), shape.end() - 1, words.shape.begin(), words.shape.end() - 1) &&
           shape.back() >= 0 && shape.back() / kWordBits <= words.shape.back();
  };
  if (shape.size() != words.shape.size() || shape.empty() || !fits())
    data_loss(fmt::format("{}: {}, which does not fit {} of shape {}",
                          search.leaves[stored].full_name(), shape_text(shape), words.full_name(),
                          shape_text(words.shape)));
  return shape;
}

// Bits of a code: those of the configuration, or those that follow from the shapes.
std::int64_t bits_of(const LeafSearch& search, const TensorInfo& words, const Shape& shape) {
  std::vector<std::int64_t> fitting;
  for (std::int64_t bits = 1; bits <= 8; ++bits)
    if (words_of(shape.back(), bits) == words.shape.back() &&
        search.config.bits.value_or(bits) == bits)
      fitting.push_back(bits);
  if (fitting.empty())
    data_loss(fmt::format("{}: {} words a row do not fit {} codes of {} bits", words.full_name(),
                          words.shape.back(), shape.back(),
                          search.config.bits ? std::to_string(*search.config.bits) : "1 to 8"));
  if (fitting.size() > 1 && shape.back() > 0)
    invalid_argument(fmt::format(
        "{}: rows of {} elements in {} words may have {} to {} bits each; put the model's "
        "config.json beside its files",
        words.full_name(), shape.back(), words.shape.back(), fitting.front(), fitting.back()));
  return shape.back() > 0 ? fitting.front() : 4;
}

CodePacking packing_of(const LeafSearch& search, const TensorInfo& words, const Shape& shape) {
  const std::int64_t bits = bits_of(search, words, shape);
  if (bits == 4) return CodePacking::kInt4;
  if (bits == 8) return CodePacking::kInt8;
  throw Error(Code::kUnimplemented,
              fmt::format("{}: packed integers of {} bits cannot be dequantised: Cairn reads those "
                          "of 4 and 8",
                          words.full_name(), bits));
}

void add_zero_points(const LeafSearch& search, std::size_t i, std::string_view from,
                     std::string_view to, ScaledCodes& spec) {
  const auto found = search.leaves.readable(i, from, to);
  if (!found) return;
  const TensorInfo& zeros = search.leaves[*found];
  const TensorInfo& scales = search.leaves[spec.scale];
  spec.zero_point = found;
  if (zeros.shape == scales.shape && dtype_kind(zeros.dtype) != DTypeKind::kComplex) return;
  Shape packed = scales.shape;
  const bool may_be_packed = spec.packing != CodePacking::kElements && spec.blocks.size() >= 2 &&
                             zeros.dtype == DType::kInt32;
  if (may_be_packed) {
    std::int64_t& rows = packed[packed.size() - 2];
    rows = words_of(rows, kWordBits / codes_per_element(spec.packing));
  }
  const bool is_packed = may_be_packed && zeros.shape == packed;
  if (!is_packed)
    data_loss(fmt::format("{}: {}, which does not fit scales of shape {}", zeros.full_name(),
                          type_text(zeros), shape_text(scales.shape)));
  spec.zero_points = ZeroPoints::kPacked;
}

void add_group_index(const LeafSearch& search, std::size_t i, ScaledCodes& spec) {
  const auto found = search.leaves.readable(i, kPacked, "weight_g_idx");
  if (!found) return;
  const TensorInfo& groups = search.leaves[*found];
  const bool is_integer = groups.dtype == DType::kInt32 || groups.dtype == DType::kInt64;
  if (!is_integer || groups.shape != Shape{spec.shape.back()})
    data_loss(fmt::format("{}: {}; expected a group for each of {} columns", groups.full_name(),
                          type_text(groups), spec.shape.back()));
  if (!spec.blocks.empty()) spec.group_index = found;
}

// What is left of the parts when one scale serves all: the groups mean nothing then.
void add_unused(const LeafSearch& search, std::size_t i, DequantizedLeaf& leaf) {
  for (const char* name : {"weight_shape", "weight_g_idx"})
    if (const auto found = search.leaves.sibling(i, kPacked, name))
      leaf.parameters.push_back(*found);
}

}  // namespace

bool is_array_of(const TensorInfo& leaf, DType dtype) {
  return leaf.kind == LeafKind::kArray && leaf.error.empty() && leaf.dtype == dtype;
}

bool name_ends_with(const TensorInfo& leaf, std::string_view end) {
  return !leaf.path.empty() && std::string_view(leaf.name).ends_with(end);
}

bool is_float8(DType dtype) {
  return dtype_kind(dtype) == DTypeKind::kFloat && dtype_size(dtype) == 1 &&
         dtype != DType::kFloat8E8m0fnu && dtype != DType::kFloat4E2m1fn;
}

std::string type_text(const TensorInfo& leaf) { return leaf.dtype_name + shape_text(leaf.shape); }

std::optional<DequantizedLeaf> find_scaled(const LeafSearch& search, std::size_t i) {
  const TensorInfo& codes = search.leaves[i];
  const bool is_int8 = is_array_of(codes, DType::kInt8) && name_ends_with(codes, "weight");
  const bool is_fp8 = is_array_of(codes, codes.dtype) && is_float8(codes.dtype);
  if (!is_int8 && !is_fp8) return std::nullopt;
  const auto scale = scale_of(search, i);
  if (!scale) {
    if (is_int8) return std::nullopt;  // numbers as others are
    const std::string name = codes.full_name();
    invalid_argument(
        fmt::format("{}: {} without a scale: there is neither {}_scale_inv nor "
                    "{}_scale, which may lie in a file that is missing",
                    name, codes.dtype_name, name, name));
  }
  ScaledCodes spec{.codes = i, .shape = codes.shape, .scale = *scale};
  check_scale_type(search.leaves[*scale]);
  if (is_int8 && dtype_size(search.leaves[*scale].dtype) == 1)
    throw Error(Code::kUnimplemented,
                codes.full_name() +
                    ": int8 with scales of E8M0 may be pairs of 4 bits, which Cairn "
                    "does not dequantise");
  with_context([&] { return codes.full_name(); },
               [&] {
                 spec.blocks = block_extents(codes.shape, search.leaves[*scale].shape,
                                             is_fp8 ? search.config.blocks : Shape());
               });
  add_zero_points(search, i, "", "_zero_point", spec);
  std::string format = (is_int8 ? "int8, " : "fp8, ") + blocks_text(spec.blocks, codes.shape);
  DequantizedLeaf leaf = made(search, std::move(spec), codes.path, std::move(format));
  add_activation_parameters(search.leaves, i, "weight", leaf.parameters);
  return leaf;
}

std::optional<DequantizedLeaf> find_mxfp4(const LeafSearch& search, std::size_t i) {
  const TensorInfo& codes = search.leaves[i];
  if (!is_array_of(codes, DType::kUint8)) return std::nullopt;
  // OpenAI's own files have dots and keep the order of the axes.
  const bool is_original = name_ends_with(codes, ".blocks");
  if (!is_original && !name_ends_with(codes, "_blocks")) return std::nullopt;
  const std::string_view end = is_original ? ".blocks" : "_blocks";
  const std::size_t scale = search.leaves.required(i, end, is_original ? ".scales" : "_scales");
  const TensorInfo& scales = search.leaves[scale];
  const std::size_t least = is_original ? 3 : 4;  // experts, rows, groups, bytes
  const bool has_rank = is_original ? codes.shape.size() >= least : codes.shape.size() == least;
  if (!has_rank || codes.shape.back() != kMxfp4Bytes)
    data_loss(fmt::format("{}: blocks of MXFP4 of shape {}; expected (experts, rows, groups, 16)",
                          codes.full_name(), shape_text(codes.shape)));
  const bool is_e8m0 = scales.dtype == DType::kUint8 || scales.dtype == DType::kFloat8E8m0fnu;
  if (!is_e8m0 || !std::equal(codes.shape.begin(), codes.shape.end() - 1, scales.shape.begin(),
                              scales.shape.end()))
    data_loss(fmt::format("{}: {}, which does not fit blocks of shape {}", scales.full_name(),
                          type_text(scales), shape_text(codes.shape)));
  ScaledCodes spec{
      .codes = i, .packing = CodePacking::kFloat4, .shape = scales.shape, .scale = scale};
  if (spec.shape.back() > kMostElements)
    data_loss(codes.full_name() + ": has more elements than any memory");
  spec.shape.back() *= kMxfp4Group;
  spec.blocks.assign(spec.shape.size(), 1);
  spec.blocks.back() = kMxfp4Group;
  DequantizedLeaf leaf = made(search, std::move(spec), without_end(codes, end), "mxfp4");
  // As transformers gives it: (experts, in, out).
  if (!is_original) leaf.array = lazy_transpose(std::move(leaf.array), {0, 2, 1});
  return leaf;
}

std::optional<DequantizedLeaf> find_packed(const LeafSearch& search, std::size_t i) {
  const TensorInfo& codes = search.leaves[i];
  if (!name_ends_with(codes, kPacked)) return std::nullopt;
  if (!is_array_of(codes, DType::kInt32))
    throw Error(Code::kUnimplemented,
                fmt::format("{}: packed weights of type {} cannot be dequantised: Cairn reads "
                            "pack-quantized integers in int32",
                            codes.full_name(), codes.dtype_name));
  ScaledCodes spec{.codes = i, .shape = packed_shape(search, i)};
  spec.scale = search.leaves.required(i, kPacked, "weight_scale");
  spec.packing = packing_of(search, codes, spec.shape);
  const TensorInfo& scales = search.leaves[spec.scale];
  check_scale_type(scales);
  // A scale a channel stays one, whatever the size of groups elsewhere.
  const bool is_channel = scales.shape.size() == spec.shape.size() && scales.shape.back() == 1;
  with_context([&] { return codes.full_name(); },
               [&] {
                 spec.blocks = block_extents(spec.shape, scales.shape,
                                             is_channel ? Shape() : search.config.groups);
               });
  add_zero_points(search, i, kPacked, "weight_zero_point", spec);
  add_group_index(search, i, spec);
  std::string format = (spec.packing == CodePacking::kInt4 ? "int4, " : "packed int8, ") +
                       blocks_text(spec.blocks, spec.shape);
  if (spec.group_index) format += ", in any order";
  DequantizedLeaf leaf =
      made(search, std::move(spec), without_end(codes, "_packed"), std::move(format));
  add_unused(search, i, leaf);
  add_activation_parameters(search.leaves, i, kPacked, leaf.parameters);
  return leaf;
}

}  // namespace cairn::inline v0
