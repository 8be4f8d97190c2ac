// plan.cc -- selects, renames and checks the leaves of a conversion.

#include <cairn/tools/convert/plan.h>

#include <cairn/inspect.h>
#include <cairn/safetensors.h>
#include <cairn/tensorflow.h>
#include <cairn/tools/convert/kept_types.h>
#include <cairn/tools/convert/leaf_names.h>
#include <cairn/tools/source/capacity.h>
#include <cairn/tools/source/source_files.h>
#include <cairn/tools/source/stream.h>
#include <cairn/tools/source/tree_name.h>

#include <algorithm>
#include <array>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMaxNamed = 20;  // leaves or globs listed in one error
// buffers in the writer's memory: it fills one while it writes the other
constexpr std::uint64_t kBuffers = 2;

constexpr std::array<std::string_view, 7> kFormats = {
    "safetensors", "npz", "msgpack", "tensorflow", "orbax", "orbax-zarr3", "orbax-files"};

bool holds_trees(std::string_view format) { return is_orbax_format(format) || format == "msgpack"; }

void check_options(const ConvertOptions& options, const std::string& format) {
  if (options.dtype && dtype_kind(*options.dtype) != DTypeKind::kFloat)
    throw Error(Code::kInvalidArgument,
                "floating arrays can be cast only to a floating type, not to " +
                    std::string(dtype_name(*options.dtype)));
  const bool has_shards = format == "safetensors" || format == "tensorflow";
  if (!has_shards && (options.safetensors.max_shard_bytes || options.tensorflow.max_shard_bytes))
    throw Error(Code::kInvalidArgument, format + " files cannot be split into shards");
  if (options.tensorflow != TensorFlowTarget() && format != "tensorflow")
    throw Error(
        Code::kInvalidArgument,
        "plain names, naming the latest checkpoint and tensorflow.max_shard_bytes are options of "
        "TensorFlow, not of " +
            format);
  if (options.safetensors != SafetensorsTarget() && format != "safetensors")
    throw Error(Code::kInvalidArgument,
                "metadata (--metadata) and safetensors.max_shard_bytes are options of safetensors "
                "files, not of " +
                    format);
  if (!options.nest.empty() && !holds_trees(format))
    throw Error(Code::kInvalidArgument,
                format + " has no nested dicts: nesting (--nest) is for Orbax and msgpack");
  if (options.msgpack != MsgpackTarget() && format != "msgpack")
    throw Error(Code::kInvalidArgument,
                "a dialect is an option of msgpack files, not of " + format);
  if (options.orbax != OrbaxTarget() && !is_orbax_format(format))
    throw Error(
        Code::kInvalidArgument,
        "compression, chunks, data files and items are options of Orbax checkpoints, not of " +
            format);
}

// "a (why), b (why) and 7 more"
std::string list_text(const std::vector<std::pair<std::string, std::string>>& leaves) {
  std::string out;
  for (std::size_t i = 0; i < leaves.size() && i < kMaxNamed; ++i)
    out.append(i > 0 ? ", " : "")
        .append(printable_text(leaves[i].first))
        .append(" (")
        .append(leaves[i].second)
        .append(")");
  if (leaves.size() > kMaxNamed)
    out.append(" and ").append(std::to_string(leaves.size() - kMaxNamed)).append(" more");
  return out;
}

// "'a*', 'b*' and 7 more"
std::string globs_text(const std::vector<std::string>& globs) {
  std::string out;
  for (std::size_t i = 0; i < globs.size() && i < kMaxNamed; ++i)
    out.append(i > 0 ? ", '" : "'").append(globs[i]).append("'");
  if (globs.size() > kMaxNamed)
    out.append(" and ").append(std::to_string(globs.size() - kMaxNamed)).append(" more");
  return out;
}

// Throws if the globs select no leaves, because the empty result would pass for the whole
// checkpoint. A checkpoint without leaves converts.
void check_selected(const Checkpoint& source, const ConvertOptions& options, std::size_t selected) {
  const auto& tensors = source.tensors();
  const bool has_leaves = std::any_of(tensors.begin(), tensors.end(), [](const TensorInfo& t) {
    return t.typestr != "object_graph";
  });
  if (selected > 0 || !has_leaves || (options.include.empty() && options.exclude.empty())) return;
  std::string why = options.include.empty()
                        ? "every leaf is excluded by " + globs_text(options.exclude)
                        : "no leaf matches " + globs_text(options.include);
  if (!options.include.empty() && !options.exclude.empty())
    why += " and is not excluded by " + globs_text(options.exclude);
  throw Error(Code::kNotFound, "nothing is selected: " + why + "; nothing is written");
}

// Throws if the format can hold none of the selected leaves. Nodes without data do not count.
void check_kept(const Checkpoint& source, const std::vector<std::size_t>& left_out,
                const ConvertPlan& plan) {
  const auto& tensors = source.tensors();
  const auto holds_data = [&](std::size_t i) {
    return tensors[i].is_array() || tensors[i].is_string();
  };
  if (!plan.targets.empty() || std::none_of(left_out.begin(), left_out.end(), holds_data)) return;
  throw Error(Code::kInvalidArgument,
              plan.report.format + " cannot hold any of the " + std::to_string(left_out.size()) +
                  " selected leaves: " + list_text(plan.report.skipped) + "; nothing is written");
}

// Why the target cannot hold this leaf; "" if it can.
std::string obstacle(const TensorInfo& t, DType dtype, const std::string& format) {
  if (!t.error.empty()) return t.error;
  if (format == "tensorflow" && t.is_string()) return "";
  if (t.is_string() && !t.shape.empty()) return "an array of strings";
  if (t.is_string() && t.dtype_name == "bytes") return "a string of bytes";
  if (is_orbax_format(format))
    return t.is_array() && dtype == DType::kOpaque ? "elements of type " + t.dtype_name : "";
  if (t.typestr == "placeholder") return "a placeholder without data";
  if (format == "msgpack")
    return t.is_array() && dtype == DType::kOpaque ? "elements of type " + t.dtype_name : "";
  if (t.is_string()) return "a string";
  if (!t.is_array()) return "an empty node (" + t.typestr + ")";
  if (format == "tensorflow" && dtype != DType::kOpaque)
    return tensorflow_dtype(dtype) ? "" : "elements of type " + std::string(dtype_name(dtype));
  if (dtype == DType::kOpaque) return "elements of type " + t.dtype_name;
  if (format == "safetensors" && !safetensors_dtype(dtype))
    return "elements of type " + t.dtype_name;
  if (format == "safetensors" && dtype == DType::kFloat4E2m1fn && element_count(t.shape) % 2 != 0)
    return "an odd number of elements of type " + t.dtype_name +
           ", of which it packs two in a byte";
  return "";
}

// What holds the names of leaves. `keeps_keys`: keys are those of a TensorFlow source.
NameHolder name_holder(const TensorInfo& t, const ConvertPlan& plan, const ConvertOptions& options,
                       bool keeps_keys) {
  const std::string& format = plan.report.format;
  if (format == "npz") return NameHolder::kZipMember;
  if (keeps_keys || (format == "tensorflow" && options.tensorflow.plain_names))
    return NameHolder::kBytes;
  return format == "orbax-files" && t.is_array() ? NameHolder::kFolder : NameHolder::kText;
}

bool is_scalar(const TensorInfo& t) {
  return t.typestr == "scalar" || t.typestr == "complex" || t.typestr == "np.generic";
}

DType target_dtype(const TensorInfo& t, const ConvertOptions& options) {
  const bool castable = dtype_kind(t.dtype) == DTypeKind::kFloat && !is_scalar(t);
  return options.dtype && castable ? *options.dtype : t.dtype;
}

// Divides the memory between the writer's buffers and the scratch memory of casts, and sets where
// large tensors are cut.
void plan_memory(const Checkpoint& source, std::uint64_t memory, ConvertPlan& plan) {
  std::uint64_t scratch = 0;  // worst case: scratch bytes for each byte of a buffer
  for (std::size_t i = 0; i < plan.targets.size(); ++i) {
    const TensorInfo& t = source.tensors()[plan.indices[i]];
    const std::size_t to = dtype_size(plan.targets[i].dtype);
    if (plan.targets[i].dtype != t.dtype)
      scratch = std::max<std::uint64_t>(scratch, (t.element_size + to - 1) / to);
  }
  plan.memory = memory / (1 + scratch);
  for (std::size_t i = 0; i < plan.targets.size(); ++i) {
    const TensorInfo& t = source.tensors()[plan.indices[i]];
    const std::size_t size = dtype_size(plan.targets[i].dtype);
    if (size == 0) continue;  // a string or an empty node
    const auto most = static_cast<std::int64_t>(plan.memory / kBuffers / size);
    plan.targets[i].cut =
        static_cast<std::uint64_t>(cut_elements(t, Box::whole(t.shape), most)) * size;
  }
}

// The path of a leaf in a tree that has the items as its top level.
KeyPath with_item(const TensorInfo& t) {
  KeyPath path = t.path;
  path.insert(path.begin(), Key{*t.item, KeyType::kDict});
  return path;
}

}  // namespace

void check_capacity(const Checkpoint& source, const std::string& target, const ConvertPlan& plan,
                    const Compression& compression) {
  const bool compressed =
      is_orbax_format(plan.report.format) && compression.method != Compression::kNone;
  check_space(target, plan.report.bytes, compressed ? Packing::kCompressed : Packing::kRaw);
  if (plan.items) check_space(target, plan.items->copied_bytes, Packing::kRaw);
  for (const std::size_t index : plan.indices) check_dense(source.tensors()[index]);
}

std::span<const std::string_view> convert_formats() { return kFormats; }

std::string target_format(const std::string& target, const std::string& format) {
  if (std::find(kFormats.begin(), kFormats.end(), format) != kFormats.end()) return format;
  if (!format.empty()) {
    std::string known;
    for (const auto name : kFormats) known.append(known.empty() ? "" : ", ").append(name);
    throw Error(Code::kInvalidArgument,
                "unknown target format '" + format + "': expected one of " + known);
  }
  if (target.ends_with(".safetensors")) return "safetensors";
  if (target.ends_with(".npz")) return "npz";
  if (target.ends_with(".msgpack")) return "msgpack";
  if (target.ends_with(".index")) return "tensorflow";
  throw Error(Code::kInvalidArgument,
              target +
                  ": unknown file extension: expected .safetensors, .npz, .msgpack or "
                  ".index, or --to FORMAT (orbax makes a folder)");
}

bool is_orbax_format(std::string_view format) { return format.starts_with("orbax"); }

ConvertPlan plan_conversion(const Checkpoint& source, const std::string& target,
                            const ConvertOptions& options) {
  check_outside_source(source, target);
  ConvertPlan plan;
  plan.report.format = target_format(target, options.format);
  check_options(options, plan.report.format);
  plan.items = choose_items(source, options, is_orbax_format(plan.report.format), plan.report);
  // Between two TensorFlow checkpoints, keys and types do not change.
  const bool of_one_kind = plan.report.format == "tensorflow" && has_keys(source);
  const auto stored_name = [&](const TensorInfo& t) {
    return of_one_kind ? t.name : tree_name(source, t);
  };
  LeafNames names(options, std::ranges::any_of(source.tensors(), [&](const TensorInfo& t) {
                    return stored_name(t).find('/') != std::string::npos;
                  }));
  std::vector<std::pair<std::string, std::string>> unsupported;
  std::vector<std::size_t> left_out;  // indices of the same leaves
  for (const std::size_t index : select_tensors(source, options.include, options.exclude)) {
    const TensorInfo& t = source.tensors()[index];
    KeptTree* tree = nullptr;  // the item that the leaf stays in
    if (plan.items) {
      tree = tree_of(source, t, *plan.items);
      if (tree == nullptr) continue;  // its item is copied
      tree->selected = true;
    }
    if (!t.is_described()) throw Error(Code::kDataLoss, t.full_name() + ": " + t.error);
    // it is not a leaf, but describes which objects the leaves belong to
    if (t.typestr == "object_graph") continue;
    const DType dtype = target_dtype(t, options);
    if (std::string why = obstacle(t, dtype, plan.report.format);
        !why.empty() && !(of_one_kind && t.error.empty())) {
      unsupported.emplace_back(t.full_name(), std::move(why));
      left_out.push_back(index);
      continue;
    }
    const bool prefixed = t.item && tree == nullptr;
    const std::string stored = stored_name(t);
    const KeyPath path = prefixed ? with_item(t) : t.path;
    LeafNames::Name named = names.rename(prefixed ? param_name(path) : stored, path);
    if (std::string why = name_obstacle(named, name_holder(t, plan, options, of_one_kind));
        !why.empty()) {
      unsupported.emplace_back(t.full_name(), std::move(why));
      left_out.push_back(index);
      continue;
    }
    names.take(tree != nullptr ? tree->name : "", named, t.full_name());
    if (named.renamed || (!prefixed && !named.nested && named.name != t.name))
      plan.report.renamed.emplace_back(prefixed ? t.full_name() : t.name, named.name);
    plan.nested = plan.nested || named.nested;
    if (is_scalar(t) && !holds_trees(plan.report.format)) plan.report.scalars.push_back(named.name);
    if (dtype != t.dtype) ++plan.report.cast;
    if (tree != nullptr) tree->leaves.push_back(plan.indices.size());
    plan.indices.push_back(index);
    plan.paths.push_back(std::move(named.path));
    plan.targets.push_back({std::move(named.name), dtype, t.shape, 0});
    const bool cast = t.is_array() && dtype != t.dtype;
    plan.report.bytes = saturating_add(
        plan.report.bytes,
        cast ? saturating_multiply(static_cast<std::uint64_t>(element_count(t.shape)),
                                   dtype_size(dtype))
             : t.nbytes);
  }
  if (!unsupported.empty() && !options.skip_unsupported)
    throw Error(Code::kInvalidArgument,
                plan.report.format + " cannot hold " + std::to_string(unsupported.size()) +
                    (unsupported.size() == 1 ? " leaf: " : " leaves: ") + list_text(unsupported) +
                    "; leave them out with --skip-unsupported, or name them with --exclude");
  if (holds_trees(plan.report.format)) names.check_containers();
  const std::size_t copies = plan.items ? plan.items->copies.size() : 0;
  check_selected(source, options, plan.targets.size() + unsupported.size() + copies);
  plan.report.skipped = std::move(unsupported);
  check_kept(source, left_out, plan);
  plan.report.tensors = plan.targets.size();
  if (plan.items) finish_items(source, options, *plan.items, plan.report);
  keep_types(source, plan);
  report_lost_metadata(source, options.safetensors.metadata, plan.report);
  if (!is_orbax_format(plan.report.format)) plan_memory(source, options.resources.memory, plan);
  return plan;
}

}  // namespace cairn::inline v0
