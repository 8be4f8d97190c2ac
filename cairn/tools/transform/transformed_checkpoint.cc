#include <cairn/tools/transform/transformed_checkpoint.h>

#include <cairn/array/box.h>
#include <cairn/base/hash.h>
#include <cairn/base/text.h>
#include <cairn/inspect.h>
#include <cairn/tools/source/derived_checkpoint.h>
#include <cairn/tools/transform/scratch_arrays.h>
#include <cairn/tree/transform/transform_keys.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>

namespace cairn::inline v0 {
namespace {

bool is_index(std::string_view text) { return consists_of(text, kDecimalDigits); }

// Converts new keys to paths. A node is a list if it was one before and all its children still have
// numbers as keys; otherwise it is a dict.
class Paths {
 public:
  Paths(const Checkpoint& source, const std::vector<TransformedLeaf>& leaves) {
    for (const TensorInfo& tensor : source.tensors()) {
      std::string above;
      for (const Key& key : tensor.path) {
        if (key.type == KeyType::kSequence) lists_.insert(above);
        above += key.text + "/";
      }
    }
    for (const TransformedLeaf& leaf : leaves) {
      std::string above;
      for (const std::string_view part : steps_of(leaf)) {
        if (!is_index(part)) lists_.erase(above);
        nodes_.insert(above);
        above.append(part).append("/");
      }
    }
  }

  [[nodiscard]] KeyPath path(const TransformedLeaf& leaf) const {
    const std::string& key = leaf.key;
    if (nodes_.count(key + "/") != 0)
      throw Error(
          Code::kInvalidArgument,
          "'" + printable_text(key) + "' would be a leaf and a container of leaves at once");
    KeyPath path;
    std::string above;
    for (const std::string_view part : steps_of(leaf)) {
      path.push_back(
          {std::string(part), lists_.count(above) != 0 ? KeyType::kSequence : KeyType::kDict});
      above.append(part).append("/");
    }
    return path;
  }

 private:
  static std::vector<std::string_view> steps_of(const TransformedLeaf& leaf) {
    const std::string_view key = leaf.key;
    const std::size_t last = key.rfind('/');
    if (leaf.split == KeySplit::kNowhere) return {key};
    if (leaf.split == KeySplit::kEverySlash || last == std::string_view::npos)
      return split(key, '/');
    return {key.substr(0, last), key.substr(last + 1)};
  }

  std::set<std::string> lists_;  // nodes; each key is followed by '/'
  std::set<std::string> nodes_;  // nodes that have children
};

std::string hash_text(std::string_view rules) {
  return fmt::format("{:016x}", fnv1a(as_bytes(rules)));
}

class TransformedCheckpoint final : public DerivedCheckpoint {
 public:
  TransformedCheckpoint(std::shared_ptr<const Checkpoint> source, RuleResult result,
                        std::vector<std::string> unused, const TransformOptions& options)
      : source_(std::move(source)),
        info_(source_->info()),
        values_(std::move(result.values)),
        unused_(std::move(unused)),
        scaled_(std::move(result.scaled)),
        memory_(options.resources.memory),
        workers_(options.resources.threads),
        scratch_(*source_, options.scratch, memory_ / 2) {
    std::vector<TransformedLeaf> leaves = std::move(result.leaves);
    const Paths paths(*source_, leaves);
    std::vector<std::pair<KeyPath, TransformedLeaf>> ordered;
    ordered.reserve(leaves.size());
    for (TransformedLeaf& leaf : leaves) ordered.emplace_back(paths.path(leaf), std::move(leaf));
    std::sort(ordered.begin(), ordered.end(),
              [](const auto& a, const auto& b) { return key_path_less(a.first, b.first); });
    std::vector<TensorInfo> tensors;
    for (auto& [path, leaf] : ordered) {
      tensors.push_back(tensor_of(path, leaf));
      leaves_.push_back(std::move(leaf));
    }
    tensors_ = TensorList(std::move(tensors));
    info_.layout += ", transformed";
    info_.revision.emplace_back("the rules that transform it", hash_text(result.identity));
  }

  [[nodiscard]] const Checkpoint& source() const override { return *source_; }
  [[nodiscard]] std::vector<TransformValue> values() const override { return values_; }
  [[nodiscard]] std::vector<std::string> unused() const override { return unused_; }
  [[nodiscard]] std::vector<InexactLeaves> inexact() const override {
    std::vector<InexactLeaves> found;
    for (const ScaledLeaves& scaled : scaled_)
      if (const std::uint64_t inexact = scaled.counts->inexact; inexact > 0)
        found.push_back({scaled.where, scaled.name, scaled.counts->computed, inexact});
    return found;
  }
  [[nodiscard]] std::vector<std::uint64_t> groups() const override {
    std::vector<std::uint64_t> groups;
    std::vector<std::size_t> uses(source_->tensors().size());
    for (const TransformedLeaf& leaf : leaves_)
      if (leaf.source < uses.size()) ++uses[leaf.source];
    for (const TransformedLeaf& leaf : leaves_)
      groups.push_back(leaf.source < uses.size() && uses[leaf.source] > 1 ? leaf.source + 1 : 0);
    return groups;
  }
  void expect_reads(std::span<const std::size_t> leaves) const override {
    ExpectedBytes bytes;
    for (const std::size_t leaf : leaves) {
      if (!leaves_[leaf].array) continue;
      std::vector<std::size_t> sources;
      leaves_[leaf].array->add_sources(sources);
      // Of several sources, each may be read as a whole.
      const auto elements = static_cast<std::uint64_t>(element_count(tensors_[leaf].shape));
      for (const std::size_t index : sources) {
        const TensorInfo& tensor = source_->tensors()[index];
        bytes[index] += std::min(elements * tensor.element_size, tensor.nbytes);
      }
    }
    scratch_.expect(std::move(bytes));
  }
  [[nodiscard]] CheckpointInfo info() const override { return info_; }
  [[nodiscard]] TensorList tensors() const override { return tensors_; }
  void read(std::span<const ReadRequest> requests, const ProgressFn& /*progress*/) const override {
    LazyReads reads{{*source_, memory_, workers_.executor(), &scratch_}};
    for (const ReadRequest& request : requests) {
      const TransformedLeaf& leaf = leaves_[request.tensor];
      if (!leaf.array)
        throw Error(Code::kInvalidArgument,
                    "'" + tensors_[request.tensor].name + "' is not an array that can be read");
      leaf.array->read(request.box, request.out, reads);
    }
    reads.run();
  }
  [[nodiscard]] std::string read_string(std::size_t index) const override {
    return source_->read_string(leaves_[index].source);
  }
  [[nodiscard]] std::vector<std::string> read_strings(std::size_t index) const override {
    return source_->read_strings(leaves_[index].source);
  }
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override {
    return leaves_[index].computed ? std::nullopt : source_->try_view(leaves_[index].source);
  }
  [[nodiscard]] std::string random_key_impl(std::size_t index) const override {
    return leaves_[index].computed ? "" : source_->random_key_impl(leaves_[index].source);
  }
  [[nodiscard]] std::optional<ZarrMetadata> zarr_metadata(std::size_t index) const override {
    return leaves_[index].computed ? std::nullopt : source_->zarr_metadata(leaves_[index].source);
  }
  [[nodiscard]] VerifyReport verify(const ProgressFn& progress) const override {
    return source_->verify(progress);
  }

 private:
  [[nodiscard]] TensorInfo tensor_of(const KeyPath& path, const TransformedLeaf& leaf) const {
    const bool is_new = leaf.source == TransformedLeaf::kNoSource;
    TensorInfo tensor = is_new ? TensorInfo() : source_->tensors()[leaf.source];
    tensor.path = path;
    tensor.name = param_name(path);
    if (!leaf.computed) return tensor;
    describe_as(*leaf.array, tensor);
    if (is_new) tensor.typestr = tensor.shape.empty() ? "scalar" : "np.ndarray";
    // computed from stored data, so it has no missing chunks
    tensor.stored_nbytes = tensor.nbytes;
    return tensor;
  }

  std::shared_ptr<const Checkpoint> source_;
  CheckpointInfo info_;
  std::vector<TransformValue> values_;
  std::vector<std::string> unused_;
  std::vector<ScaledLeaves> scaled_;
  std::uint64_t memory_;
  Workers workers_;
  mutable ScratchArrays scratch_;
  TensorList tensors_;
  std::vector<TransformedLeaf> leaves_;
};

TransformReport report_of(const Checkpoint& source, const std::vector<TransformedLeaf>& leaves) {
  TransformReport report;
  std::vector<bool> used(source.tensors().size());
  for (const TransformedLeaf& leaf : leaves) {
    const bool is_new = leaf.source == TransformedLeaf::kNoSource;
    if (!is_new) used[leaf.source] = true;
    std::vector<std::size_t> sources;
    if (leaf.array) leaf.array->add_sources(sources);
    for (const std::size_t i : sources) used[i] = true;
    const std::string from =
        leaf.array ? leaf.array->text(source) : source.tensors()[leaf.source].name;
    const std::string was = is_new ? "" : transform_key(source.tensors()[leaf.source].path);
    if (leaf.computed || leaf.key != was) report.made.emplace_back(leaf.key, from);
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i])
      report.read_bytes += source.tensors()[i].nbytes;
    else
      report.unused.push_back(source.tensors()[i].name);
  }
  return report;
}

}  // namespace

Transformed transformed_checkpoint(std::shared_ptr<const Checkpoint> source, RuleResult result,
                                   const TransformOptions& options) {
  TransformReport report = report_of(*source, result.leaves);
  report.values = result.values;
  std::vector<std::string> unused;
  if (result.two_sided) unused = report.unused;
  return {std::make_unique<TransformedCheckpoint>(std::move(source), std::move(result),
                                                  std::move(unused), options),
          std::move(report)};
}

}  // namespace cairn::inline v0
