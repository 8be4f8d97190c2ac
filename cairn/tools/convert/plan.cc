// plan.cc -- selects, renames and checks the leaves of a conversion.

#include <cairn/tools/convert/plan.h>

#include <cairn/base/text.h>
#include <cairn/inspect.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/tools/convert/kept_types.h>
#include <cairn/tools/convert/leaf_names.h>
#include <cairn/tools/convert/target_format.h>
#include <cairn/tools/convert/to_tensorflow.h>
#include <cairn/tools/source/capacity.h>
#include <cairn/tools/source/derived_checkpoint.h>
#include <cairn/tools/source/name_match.h>
#include <cairn/tools/source/source_files.h>
#include <cairn/tools/source/stream.h>
#include <cairn/tools/source/tree_name.h>
#include <cairn/tree/leaf_value.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMaxNamed = 20;  // leaves or globs listed in one error
// buffers in the writer's memory: it fills one while it writes the other
constexpr std::uint64_t kBuffers = 2;

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

// Throws if something is missing, unless `exclude` names its item or the source allows it. Reports
// what the target therefore lacks.
void check_missing(const Checkpoint& source, const ConvertOptions& options, ConvertReport& report) {
  // Whether a leaf of a listed part is selected, its reading will tell.
  const auto is_excluded = [&](const MissingPart& part) {
    return part.is_listed || (!part.item.empty() && !selects_item({}, options.exclude, part.item));
  };
  const std::vector<MissingPart>& missing = source.info().missing;
  if (source.tensors().empty() || !std::ranges::all_of(missing, is_excluded))
    source.check_complete();
  for (const MissingPart& part : missing)
    if (!is_excluded(part))
      report.left_out.emplace_back(part.item.empty() ? std::string(name_of(part.path)) : part.item,
                                   part.text);
}

// Throws if the format can hold none of the selected leaves. Nodes without data do not count.
void check_kept(const Checkpoint& source, const std::vector<std::size_t>& left_out,
                const ConvertPlan& plan) {
  const auto& tensors = source.tensors();
  const auto holds_data = [&](std::size_t i) {
    return tensors[i].is_array() || tensors[i].is_string();
  };
  if (!plan.targets.empty() || std::none_of(left_out.begin(), left_out.end(), holds_data)) return;
  throw Error(Code::kInvalidArgument, format_text(plan.report.format) + " cannot hold any of the " +
                                          std::to_string(left_out.size()) + " selected leaves: " +
                                          list_text(plan.report.skipped) + "; nothing is written");
}

// The weights that dequantize() has made of the source, if it did: those that are written, or all
// if rules have given them other names since.
std::optional<std::vector<std::pair<std::string, std::string>>> dequantized_leaves(
    const Checkpoint& source, const std::vector<std::size_t>& written) {
  const auto* derived = dynamic_cast<const DerivedCheckpoint*>(&source);
  if (derived == nullptr) return std::nullopt;
  const auto* all = derived->dequantized();
  if (all == nullptr) return dequantized_leaves(derived->source(), {});
  if (written.empty()) return *all;
  std::set<std::string> names;
  for (const std::size_t i : written) names.insert(source.tensors()[i].full_name());
  std::vector<std::pair<std::string, std::string>> found;
  std::ranges::copy_if(*all, std::back_inserter(found),
                       [&](const auto& leaf) { return names.contains(leaf.first); });
  return found;
}

// The leaves written that differ between merged checkpoints, if the source is made of several.
std::optional<std::vector<std::string>> leaves_of_first(const Checkpoint& source,
                                                        const std::vector<std::size_t>& written) {
  const auto* derived = dynamic_cast<const DerivedCheckpoint*>(&source);
  if (derived == nullptr) return std::nullopt;
  const auto* all = derived->taken_first();
  if (all == nullptr) return leaves_of_first(derived->source(), {});
  if (written.empty()) return *all;
  std::set<std::string> names;
  for (const std::size_t i : written) names.insert(source.tensors()[i].full_name());
  std::vector<std::string> found;
  std::ranges::copy_if(*all, std::back_inserter(found),
                       [&](const std::string& name) { return names.contains(name); });
  return found;
}

// Throws if the target is one of several checkpoints that the source is computed from.
void check_sources_apart(const Checkpoint& source, const std::string& path, Written written) {
  const auto* derived = dynamic_cast<const DerivedCheckpoint*>(&source);
  if (derived == nullptr) return;
  const auto others = derived->other_sources();
  if (!others.empty()) check_no_overlap(derived->source(), path, written);
  for (const Checkpoint* other : others) check_no_overlap(*other, path, written);
  check_sources_apart(derived->source(), path, written);
}

// What holds the names of leaves. `keeps_keys`: keys are those of a TensorFlow source.
NameHolder name_holder(const TensorInfo& t, const ConvertPlan& plan, const ConvertOptions& options,
                       bool keeps_keys) {
  const TargetFormat format = plan.report.format;
  if (format == TargetFormat::kNpz) return NameHolder::kZipMember;
  if (keeps_keys || (format == TargetFormat::kTensorFlow && options.tensorflow.plain_names))
    return NameHolder::kBytes;
  return format == TargetFormat::kOrbaxFiles && t.is_array() ? NameHolder::kFolder
                                                             : NameHolder::kText;
}

bool is_scalar(const TensorInfo& t) {
  return t.typestr == "scalar" || t.typestr == "complex" || t.typestr == "np.generic";
}

// Whether the format has a scalar for it, and not only an array of rank 0.
bool holds_scalar(TargetFormat format, const TensorInfo& t) {
  return holds_trees(format) && !(is_torch_format(format) && t.typestr == "np.generic");
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
  std::vector<std::uint64_t> groups;
  if (const auto* derived = dynamic_cast<const DerivedCheckpoint*>(&source))
    groups = derived->groups();
  for (std::size_t i = 0; i < plan.targets.size(); ++i) {
    const TensorInfo& t = source.tensors()[plan.indices[i]];
    const std::size_t size = dtype_size(plan.targets[i].dtype);
    if (size == 0) continue;  // a string or an empty node
    const auto most = static_cast<std::int64_t>(plan.memory / kBuffers / size);
    if (!groups.empty()) plan.targets[i].group = groups[plan.indices[i]];
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

// Goes through the selected leaves and decides what becomes of each.
class Planner {
 public:
  Planner(const Checkpoint& source, TargetFormat format, const ConvertOptions& options)
      : source_(source),
        options_(options),
        has_keys_(has_keys(source)),
        keeps_keys_(format == TargetFormat::kTensorFlow && has_keys_),
        names_(options, std::ranges::any_of(source.tensors(), [&](const TensorInfo& t) {
                 return stored_name(t).find('/') != std::string::npos;
               })) {
    plan_.report.format = format;
    check_missing(source, options, plan_.report);
    plan_.items = choose_items(source, options, is_orbax_format(format), plan_.report);
  }

  ConvertPlan plan() {
    for (const std::size_t index : select_tensors(source_, options_.include, options_.exclude))
      add(index);
    check_leaves();
    ConvertReport& report = plan_.report;
    report.skipped = std::move(unsupported_);
    std::ranges::move(dropped_, std::back_inserter(report.skipped));
    check_kept(source_, left_out_, plan_);
    report.tensors = plan_.targets.size();
    report.dequantized = dequantized_leaves(source_, plan_.indices);
    report.taken_first = leaves_of_first(source_, plan_.indices);
    if (plan_.items) finish_items(source_, options_, *plan_.items, report);
    keep_types(source_, plan_);
    report_lost_metadata(source_, options_.safetensors.metadata, report);
    if (!is_orbax_format(report.format)) plan_memory(source_, options_.resources.memory, plan_);
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::string stored_name(const TensorInfo& t) const {
    return keeps_keys_ ? t.name : tree_name(has_keys_, t);
  }

  void add(std::size_t index) {
    const TensorInfo& t = source_.tensors()[index];
    KeptTree* tree = nullptr;  // the item that the leaf stays in
    if (plan_.items) {
      tree = tree_of(source_, t, *plan_.items);
      if (tree == nullptr) return;  // its item is copied
      tree->selected = true;
    }
    if (!t.is_described()) check_readable(t.full_name(), t);
    // it is not a leaf, but describes which objects the leaves belong to
    if (t.typestr == "object_graph") return;
    // PyTorch leaves it out of Distributed Checkpoints, too: a load needs no entry for it.
    if (plan_.report.format == TargetFormat::kDcp && t.typestr == "Dict") {
      dropped_.emplace_back(t.full_name(), "an empty dict, which has no entry");
      return;
    }
    const DType dtype = target_dtype(t, options_);
    if (std::string why = obstacle(t, dtype, plan_.report.format);
        !why.empty() && !(keeps_keys_ && t.error.empty()))
      return leave_out(index, std::move(why));
    const bool prefixed = t.item && tree == nullptr;
    const KeyPath path = prefixed ? with_item(t) : t.path;
    LeafNames::Name named = names_.rename(prefixed ? param_name(path) : stored_name(t), path);
    if (std::string why = name_obstacle(named, name_holder(t, plan_, options_, keeps_keys_));
        !why.empty())
      return leave_out(index, std::move(why));
    names_.take(tree != nullptr ? tree->name : "", named, t.full_name());
    if (named.renamed || (!prefixed && !named.nested && named.name != t.name))
      plan_.report.renamed.emplace_back(prefixed ? t.full_name() : t.name, named.name);
    plan_.nested = plan_.nested || named.nested;
    if (tree != nullptr) tree->leaves.push_back(plan_.indices.size());
    keep(index, std::move(named), dtype);
  }

  void leave_out(std::size_t index, std::string why) {
    unsupported_.emplace_back(source_.tensors()[index].full_name(), std::move(why));
    left_out_.push_back(index);
  }

  void keep(std::size_t index, LeafNames::Name named, DType dtype) {
    const TensorInfo& t = source_.tensors()[index];
    ConvertReport& report = plan_.report;
    if (is_scalar(t) && !holds_scalar(report.format, t)) report.scalars.push_back(named.name);
    if (dtype != t.dtype) ++report.cast;
    const bool cast = t.is_array() && dtype != t.dtype;
    report.bytes = saturating_add(
        report.bytes, cast ? saturating_multiply(static_cast<std::uint64_t>(element_count(t.shape)),
                                                 dtype_size(dtype))
                           : t.nbytes);
    plan_.indices.push_back(index);
    plan_.paths.push_back(std::move(named.path));
    plan_.targets.push_back({std::move(named.name), dtype, t.shape, 0});
  }

  // Throws if the target cannot hold what is selected.
  void check_leaves() const {
    const std::size_t unsupported = unsupported_.size();
    if (unsupported > 0 && !options_.skip_unsupported)
      throw Error(Code::kInvalidArgument,
                  format_text(plan_.report.format) + " cannot hold " + std::to_string(unsupported) +
                      (unsupported == 1 ? " leaf: " : " leaves: ") + list_text(unsupported_) +
                      "; leave them out with --skip-unsupported, or name them with --exclude");
    if (holds_trees(plan_.report.format)) names_.check_containers();
    const std::size_t copies = plan_.items ? plan_.items->copies.size() : 0;
    check_selected(source_, options_, plan_.targets.size() + unsupported + copies);
  }

  const Checkpoint& source_;
  const ConvertOptions& options_;
  bool has_keys_;    // the source's names are TensorFlow's keys
  bool keeps_keys_;  // between two TensorFlow checkpoints, keys and types do not change
  LeafNames names_;
  ConvertPlan plan_;
  std::vector<std::pair<std::string, std::string>> unsupported_;  // (leaf, reason)
  std::vector<std::size_t> left_out_;                             // indices of the same leaves
  std::vector<std::pair<std::string, std::string>> dropped_;  // as unsupported_; nothing is lost
};

}  // namespace

void check_capacity(const Checkpoint& source, const std::string& target, const ConvertPlan& plan,
                    const Compression& compression) {
  const bool compressed =
      is_orbax_format(plan.report.format) && compression.method != Compression::kNone;
  if (!is_store_url(target)) {
    check_space(target, plan.report.bytes, compressed ? Packing::kCompressed : Packing::kRaw);
    if (plan.items) check_space(target, plan.items->copied_bytes, Packing::kRaw);
  }
  for (const std::size_t index : plan.indices) check_dense(source.tensors()[index]);
}

ConvertPlan plan_conversion(const Checkpoint& source, const std::string& target,
                            const ConvertOptions& options) {
  const TargetFormat format = options.format ? *options.format : target_format_of(target);
  const bool has_files_beside =
      format == TargetFormat::kTensorFlow ||
      (format == TargetFormat::kSafetensors && options.safetensors.max_shard_bytes.has_value());
  if (is_store_url(target)) check_can_write(target);
  const Written written = has_files_beside                                   ? Written::kFilesBeside
                          : is_store_url(target) && is_folder_format(format) ? Written::kFolder
                                                                             : Written::kPath;
  const std::string path = format == TargetFormat::kTensorFlow ? tensorflow_prefix(target)
                           : is_store_url(target)              ? normal_path(target)
                                                               : target;
  check_sources_apart(source, path, written);
  if (is_store_url(target))
    check_apart_in_store(source, path, written);
  else
    check_outside_source(source, target, written);
  check_options(options, format);
  if (options.if_exists == IfExists::kReplace &&
      options.orbax.commit_protocol == CommitProtocol::kCommitMarker)
    check_not_in(source, target);
  return Planner(source, format, options).plan();
}

}  // namespace cairn::inline v0
