// planned_tree.cc -- rebuilds the source's containers around the leaves that are converted.
#include <cairn/tools/convert/planned_tree.h>

#include <cairn/msgpack.h>
#include <cairn/tree/leaf_value.h>

#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

bool is_timestamp(const TensorInfo& tensor) {
  return tensor.typestr == "timestamp" && tensor.dtype == DType::kInt64 && tensor.shape == Shape{2};
}

Tree timestamp_leaf(const Array& array) {
  std::array<std::int64_t, 2> parts{};
  std::memcpy(parts.data(), array.bytes().data(), sizeof parts);
  return Tree(MsgpackTimestamp{parts[0], static_cast<std::uint32_t>(parts[1])});
}

// Reads the leaves that are values in memory as one plan; nullopt for all other leaves.
std::vector<std::optional<Tree>> read_values(const PlannedSource& from,
                                             const PlannedTreeOptions& options) {
  const auto is_time = [&](const TensorInfo& tensor) {
    return options.timestamps && is_timestamp(tensor);
  };
  const auto is_value = [&](const TensorInfo& tensor) {
    return is_scalar_leaf(tensor) ||
           (options.values_in_memory && (tensor.typestr == "bytes" || is_number_list(tensor)));
  };
  const auto& indices = from.plan.indices;
  std::vector<Array> arrays(indices.size());
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const TensorInfo& tensor = from.source.tensors()[indices[i]];
    if (!is_value(tensor) && !is_time(tensor)) continue;
    arrays[i] = Array::allocate(tensor.dtype, tensor.shape);
    requests.push_back({indices[i], Box::whole(tensor.shape), arrays[i].mutable_view()});
  }
  from.source.read(requests, {});
  std::vector<std::optional<Tree>> values(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const TensorInfo& tensor = from.source.tensors()[indices[i]];
    if (is_time(tensor)) values[i] = timestamp_leaf(arrays[i]);
    if (is_value(tensor)) values[i] = array_leaf(tensor, std::move(arrays[i]));
  }
  return values;
}

// The leaves of the plan, and for each the one that is stored in its place: another one if the two
// are tied.
std::vector<std::size_t> stored_leaves(const PlannedSource& from, bool shares_ties) {
  std::vector<std::size_t> stored(from.plan.indices.size());
  std::iota(stored.begin(), stored.end(), std::size_t{0});
  if (!shares_ties) return stored;
  std::map<std::size_t, std::size_t> numbers;  // index in the source -> number in the plan
  for (const std::size_t number : stored) numbers.emplace(from.plan.indices[number], number);
  for (const auto& [leaf, earlier] : from.source.ties()) {
    const auto number = numbers.find(leaf);
    if (number == numbers.end()) continue;
    // If the earlier leaf is not converted, the first that is tied to it takes its place.
    stored[number->second] = numbers.emplace(earlier, number->second).first->second;
  }
  return stored;
}

Tree other_leaf(const PlannedSource& from, std::size_t number, std::size_t stored) {
  const std::size_t index = from.plan.indices[number];
  const TensorInfo& tensor = from.source.tensors()[index];
  if (tensor.is_string() && !tensor.shape.empty())
    return strings_leaf(tensor, from.source.read_strings(index));
  if (tensor.is_string()) return Tree(from.source.read_string(index));
  if (!tensor.is_array()) return empty_leaf(tensor.typestr);
  return Tree(CustomLeaf::of(SourceLeaf{
      stored, tensor.typestr == "bytes" ? SourceLeaf::As::kBytes : SourceLeaf::As::kArray}));
}

// Rebuilds the source's containers without the leaves that are not converted, and without
// containers that have no children left.
class Pruner {
 public:
  Pruner(const PlannedSource& from, std::vector<Tree> leaves)
      : leaves_(std::move(leaves)), numbers_(from.source.tensors().size()) {
    for (std::size_t i = 0; i < from.plan.indices.size(); ++i) numbers_[from.plan.indices[i]] = i;
  }

  std::optional<Tree> prune(const Tree& node) {
    if (const auto* dict = node.dict()) {
      Tree::Dict kept;
      for (const auto& [key, child] : *dict)
        if (auto below = prune(child)) kept.emplace_back(key, *std::move(below));
      return kept.empty() ? std::nullopt : std::optional(Tree(std::move(kept)));
    }
    if (node.tuple() != nullptr) return prune_items<Tree::Tuple>(node.tuple()->items);
    if (node.list() != nullptr) return prune_items<Tree::List>(*node.list());
    const auto* index = std::get_if<std::int64_t>(&node.value());
    if (index == nullptr || !numbers_[static_cast<std::size_t>(*index)]) return std::nullopt;
    return std::move(leaves_[*numbers_[static_cast<std::size_t>(*index)]]);
  }

 private:
  template <class Container>
  std::optional<Tree> prune_items(const Tree::List& items) {
    Tree::List kept;
    for (const Tree& item : items)
      if (auto below = prune(item)) kept.push_back(*std::move(below));
    return kept.empty() ? std::nullopt : std::optional(Tree(Container{std::move(kept)}));
  }

  std::vector<Tree> leaves_;  // by number in the plan
  // by index in the source: the number in the plan
  std::vector<std::optional<std::size_t>> numbers_;
};

// Whether the source's structure can be kept. Renamed and nested leaves have only their paths.
bool keeps_structure(const PlannedSource& from) {
  return from.plan.report.renamed.empty() && !from.plan.nested;
}

}  // namespace

Tree planned_tree(const PlannedSource& from, const PlannedTreeOptions& options) {
  std::vector<Tree> leaves;
  auto values = read_values(from, options);
  const std::vector<std::size_t> stored = stored_leaves(from, options.shares_ties);
  for (std::size_t i = 0; i < values.size(); ++i)
    leaves.push_back(values[i] ? *std::move(values[i]) : other_leaf(from, i, stored[i]));
  if (leaves.empty()) return Tree(Tree::Dict{});
  if (keeps_structure(from))
    return Pruner(from, std::move(leaves))
        .prune(from.source.structure())
        .value_or(Tree(Tree::Dict{}));
  std::vector<TreeEntry> entries;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    entries.push_back({from.plan.paths[i], std::move(leaves[i])});
  return unflatten(std::move(entries));
}

}  // namespace cairn::inline v0
