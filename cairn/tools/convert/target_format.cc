// target_format.cc -- the names of the formats that convert() writes, their options,
// and the leaves that they cannot hold.
#include <cairn/tools/convert/target_format.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/write/state_pickler.h>
#include <cairn/safetensors.h>
#include <cairn/tensorflow.h>
#include <cairn/tools/source/endings.h>

namespace cairn::inline v0 {
namespace {

struct NamedFormat {
  TargetFormat format;
  std::string_view name;
};

constexpr NamedFormat kFormats[] = {{TargetFormat::kSafetensors, "safetensors"},
                                    {TargetFormat::kNpz, "npz"},
                                    {TargetFormat::kMsgpack, "msgpack"},
                                    {TargetFormat::kTorch, "torch"},
                                    {TargetFormat::kDcp, "dcp"},
                                    {TargetFormat::kTensorFlow, "tensorflow"},
                                    {TargetFormat::kOrbax, "orbax"},
                                    {TargetFormat::kOrbaxZarr3, "orbax-zarr3"},
                                    {TargetFormat::kOrbaxFiles, "orbax-files"}};

}  // namespace

std::string_view target_format_name(TargetFormat format) {
  for (const NamedFormat& one : kFormats)
    if (one.format == format) return one.name;
  invalid_argument(std::to_string(static_cast<int>(format)) + " is not a target format");
}

TargetFormat parse_target_format(std::string_view name) {
  std::string known;
  for (const NamedFormat& one : kFormats) {
    if (one.name == name) return one.format;
    known.append(known.empty() ? "" : ", ").append(one.name);
  }
  invalid_argument("unknown target format '" + std::string(name) + "': expected one of " + known);
}

TargetFormat target_format_of(std::string_view path) {
  if (const Ending* ending = find_ending(path); ending != nullptr && ending->format)
    return *ending->format;
  invalid_argument(std::string(path) + ": unknown file extension: expected " + written_endings() +
                   " or .index, or --to FORMAT (orbax makes a folder)");
}

bool is_orbax_format(TargetFormat format) {
  return format == TargetFormat::kOrbax || format == TargetFormat::kOrbaxZarr3 ||
         format == TargetFormat::kOrbaxFiles;
}

bool is_folder_format(TargetFormat format) {
  return is_orbax_format(format) || format == TargetFormat::kDcp;
}

bool is_torch_format(TargetFormat format) {
  return format == TargetFormat::kTorch || format == TargetFormat::kDcp;
}

bool holds_trees(TargetFormat format) {
  return is_orbax_format(format) || format == TargetFormat::kMsgpack || is_torch_format(format);
}

bool keeps_key_types(TargetFormat format) {
  return is_orbax_format(format) || format == TargetFormat::kTorch;
}

std::string format_text(TargetFormat format) { return std::string(target_format_name(format)); }

void check_options(const ConvertOptions& options, TargetFormat format) {
  if (options.dtype && dtype_kind(*options.dtype) != DTypeKind::kFloat)
    invalid_argument("floating arrays can be cast only to a floating type, not to " +
                     std::string(dtype_name(*options.dtype)));
  const std::string name = format_text(format);
  const bool has_shards =
      format == TargetFormat::kSafetensors || format == TargetFormat::kTensorFlow;
  if (!has_shards && (options.safetensors.max_shard_bytes || options.tensorflow.max_shard_bytes))
    invalid_argument(name + " files cannot be split into shards");
  if (options.safetensors.max_shard_bytes == 0U || options.tensorflow.max_shard_bytes == 0U)
    invalid_argument("the largest size of a shard is 0 bytes; it must be positive");
  if (options.tensorflow != TensorFlowTarget() && format != TargetFormat::kTensorFlow)
    invalid_argument(
        "plain names, naming the latest checkpoint and tensorflow.max_shard_bytes are options of "
        "TensorFlow, not of " +
        name);
  if (options.safetensors != SafetensorsTarget() && format != TargetFormat::kSafetensors)
    invalid_argument(
        "metadata (--metadata), safetensors.max_shard_bytes and safetensors.beside are options of "
        "safetensors files, not of " +
        name);
  if (!options.nest.empty() && !holds_trees(format))
    invalid_argument(name +
                     " has no nested dicts: nesting (--nest) is for Orbax, msgpack and PyTorch");
  if (options.msgpack != MsgpackTarget() && format != TargetFormat::kMsgpack)
    invalid_argument("a dialect is an option of msgpack files, not of " + name);
  if (options.dcp != DcpTarget() && format != TargetFormat::kDcp)
    invalid_argument("dcp.chunk_bytes is an option of dcp, not of " + name);
  if (options.dcp.chunk_bytes == 0U)
    invalid_argument("the largest size of a chunk is 0 bytes; it must be positive");
  if (options.orbax != OrbaxTarget() && !is_orbax_format(format))
    invalid_argument(
        "compression, chunks, data files, items, durability and the commit protocol are options of "
        "Orbax checkpoints, not of " +
        name);
}

std::string obstacle(const TensorInfo& t, DType dtype, TargetFormat format) {
  const bool tensorflow = format == TargetFormat::kTensorFlow;
  const bool safetensors = format == TargetFormat::kSafetensors;
  if (!t.error.empty()) return t.error;
  if (tensorflow && t.is_string()) return "";
  if (t.is_string() && t.dtype_name == "bytes")
    return t.shape.empty() ? "a string of bytes" : "an array of strings of bytes";
  if (t.is_string() && !t.shape.empty() && !is_torch_format(format)) return "an array of strings";
  if (is_orbax_format(format))
    return t.is_array() && dtype == DType::kOpaque ? "elements of type " + t.dtype_name : "";
  if (t.typestr == "placeholder") return "a placeholder without data";
  if (format == TargetFormat::kMsgpack)
    return t.is_array() && dtype == DType::kOpaque ? "elements of type " + t.dtype_name : "";
  if (is_torch_format(format)) {
    if (!t.is_array()) return "";
    return dtype == DType::kOpaque ? "elements of type " + t.dtype_name
                                   : pytorch::tensor_obstacle(dtype, t.shape);
  }
  if (t.is_string()) return "a string";
  if (!t.is_array()) return "an empty node (" + t.typestr + ")";
  if (tensorflow && dtype != DType::kOpaque)
    return tensorflow_dtype(dtype) ? "" : "elements of type " + std::string(dtype_name(dtype));
  if (dtype == DType::kOpaque) return "elements of type " + t.dtype_name;
  if (safetensors && !safetensors_dtype(dtype)) return "elements of type " + t.dtype_name;
  if (safetensors && dtype == DType::kFloat4E2m1fn && element_count(t.shape) % 2 != 0)
    return "an odd number of elements of type " + t.dtype_name +
           ", of which it packs two in a byte";
  return "";
}

}  // namespace cairn::inline v0
