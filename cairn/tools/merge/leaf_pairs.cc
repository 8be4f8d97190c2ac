#include <cairn/tools/merge/leaf_pairs.h>

#include <cairn/base/errors.h>
#include <cairn/inspect.h>

#include <fmt/format.h>

#include <map>
#include <optional>

namespace cairn::inline v0 {
namespace {

using LeafReasons = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kMostLeavesNamed = 10;

bool is_number(const TensorInfo& leaf) {
  if (leaf.kind != LeafKind::kArray) return false;
  const DTypeKind kind = dtype_kind(leaf.dtype);
  return kind == DTypeKind::kFloat || kind == DTypeKind::kComplex;
}

// The objects of a TensorFlow program. It describes the leaves, and is not one.
bool is_object_graph(const TensorInfo& leaf) { return leaf.typestr == "object_graph"; }

std::string leaf_kind_text(const TensorInfo& leaf) {
  return leaf.is_array() || leaf.is_string() ? leaf.dtype_name + shape_text(leaf.shape)
                                             : leaf.typestr;
}

// Whether leaves of two checkpoints can be merged or compared.
bool have_same_kind(const TensorInfo& a, const TensorInfo& b) {
  if (a.kind != b.kind || a.shape != b.shape) return false;
  if (a.kind == LeafKind::kEmpty) return a.typestr == b.typestr;
  if (a.kind != LeafKind::kArray) return true;
  return dtype_kind(a.dtype) == dtype_kind(b.dtype) &&
         (a.dtype != DType::kOpaque || a.dtype_name == b.dtype_name);
}

void check_described(const Checkpoint& checkpoint, const TensorInfo& leaf) {
  if (!leaf.error.empty())
    throw Error(leaf.error_code,
                source_text(checkpoint) + ": " + leaf.full_name() + ": " + leaf.error);
}

// The selected leaves of one checkpoint that no leaf of the first is paired with yet.
class Unpaired {
 public:
  Unpaired(const Checkpoint& checkpoint, const MergeOptions& options) {
    const TensorList tensors = checkpoint.tensors();
    for (const std::size_t i : select_tensors(checkpoint, options.include, options.exclude))
      if (!is_object_graph(tensors[i])) leaves_[tensors[i].full_name()].push_back(i);
  }

  // The next leaf of that name.
  std::optional<std::size_t> take(const std::string& name) {
    const auto found = leaves_.find(name);
    if (found == leaves_.end()) return std::nullopt;
    const std::size_t i = found->second.front();
    found->second.erase(found->second.begin());
    if (found->second.empty()) leaves_.erase(found);
    return i;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, indices] : leaves_) names.insert(names.end(), indices.size(), name);
    return names;
  }

 private:
  std::map<std::string, std::vector<std::size_t>> leaves_;
};

// Pairs the leaves of the first checkpoint with those of one other.
void pair_with(const Checkpoint& first, const Checkpoint& other, const MergeOptions& options,
               std::vector<PairedLeaf>& leaves, LeafReasons& differences) {
  const TensorList of_first = first.tensors(), of_other = other.tensors();
  Unpaired unpaired(other, options);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].role == MergeRole::kExcluded || is_object_graph(of_first[i])) continue;
    const std::string name = of_first[i].full_name();
    const auto found = unpaired.take(name);
    if (!found) {
      differences.emplace_back(name, "missing in " + source_text(other));
      continue;
    }
    const TensorInfo& leaf = of_other[*found];
    check_described(other, leaf);
    if (!have_same_kind(of_first[i], leaf))
      differences.emplace_back(
          name, fmt::format("{} in {}, {} in {}", leaf_kind_text(of_first[i]), source_text(first),
                            leaf_kind_text(leaf), source_text(other)));
    leaves[i].indices.push_back(*found);
  }
  for (std::string& name : unpaired.names())
    differences.emplace_back(std::move(name),
                             "only in " + source_text(other) + ", not in " + source_text(first));
}

}  // namespace

std::string source_text(const Checkpoint& checkpoint) { return checkpoint.info().path; }

std::string leaves_text(std::span<const std::pair<std::string, std::string>> leaves) {
  std::string text;
  for (std::size_t i = 0; i < leaves.size() && i < kMostLeavesNamed; ++i)
    text += fmt::format("{}'{}' ({})", i == 0 ? "" : ", ", printable_text(leaves[i].first),
                        printable_text(leaves[i].second));
  if (leaves.size() > kMostLeavesNamed)
    text += fmt::format(" and {} more", leaves.size() - kMostLeavesNamed);
  return text;
}

std::vector<PairedLeaf> pair_leaves(const MergeSources& sources, std::size_t first,
                                    const MergeOptions& options) {
  const Checkpoint& model = *sources[first];
  const TensorList tensors = model.tensors();
  std::vector<PairedLeaf> leaves(tensors.size());
  for (const std::size_t i : select_tensors(model, options.include, options.exclude)) {
    check_described(model, tensors[i]);
    leaves[i].role = is_number(tensors[i]) ? MergeRole::kSummed : MergeRole::kFirst;
  }
  LeafReasons differences;
  for (std::size_t k = 0; k < sources.size(); ++k) {
    if (k != first) {
      pair_with(model, *sources[k], options, leaves, differences);
      continue;
    }
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (leaves[i].role != MergeRole::kExcluded && !is_object_graph(tensors[i]))
        leaves[i].indices.push_back(i);
  }
  if (!differences.empty())
    invalid_argument(fmt::format("the checkpoints do not agree in {} {}: {}", differences.size(),
                                 differences.size() == 1 ? "leaf" : "leaves",
                                 leaves_text(differences)));
  return leaves;
}

}  // namespace cairn::inline v0
