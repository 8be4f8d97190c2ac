// to_msgpack.cc -- converts a plan to a tree that can be serialized; its arrays are fetched later.
#include <cairn/tools/convert/to_msgpack.h>

#include <cairn/distributed/process_group.h>
#include <cairn/msgpack.h>
#include <cairn/tree/leaf_value.h>

#include <array>
#include <cstring>
#include <optional>

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

// Reads timestamps, and Python and NumPy scalars, as one plan; nullopt for all other leaves.
std::vector<std::optional<Tree>> read_scalars(const PlannedSource& from) {
  const auto& indices = from.plan.indices;
  std::vector<Array> arrays(indices.size());
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const TensorInfo& tensor = from.source.tensors()[indices[i]];
    if (!is_scalar_leaf(tensor) && !is_timestamp(tensor)) continue;
    arrays[i] = Array::allocate(tensor.dtype, tensor.shape);
    requests.push_back({indices[i], Box::whole(tensor.shape), arrays[i].mutable_view()});
  }
  from.source.read(requests, {});
  std::vector<std::optional<Tree>> scalars(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const TensorInfo& tensor = from.source.tensors()[indices[i]];
    if (is_timestamp(tensor)) scalars[i] = timestamp_leaf(arrays[i]);
    if (is_scalar_leaf(tensor)) scalars[i] = array_leaf(tensor, std::move(arrays[i]));
  }
  return scalars;
}

Tree other_leaf(const PlannedSource& from, std::size_t number) {
  const std::size_t index = from.plan.indices[number];
  const TensorInfo& tensor = from.source.tensors()[index];
  if (tensor.is_string()) return Tree(from.source.read_string(index));
  if (!tensor.is_array()) return empty_leaf(tensor.typestr);
  return Tree(CustomLeaf::of(SourceLeaf{
      number, tensor.typestr == "bytes" ? SourceLeaf::As::kBytes : SourceLeaf::As::kArray}));
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

Tree make_tree(const PlannedSource& from) {
  std::vector<Tree> leaves;
  auto scalars = read_scalars(from);
  for (std::size_t i = 0; i < scalars.size(); ++i)
    leaves.push_back(scalars[i] ? *std::move(scalars[i]) : other_leaf(from, i));
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

}  // namespace

void write_as_msgpack(const PlannedSource& from, const std::string& target, const FetchFn& fetch,
                      const ConvertOptions& options) {
  MsgpackWriteOptions write;
  write.encoding.dialect = options.msgpack.dialect.value_or(MsgpackDialect::kFlaxState);
  write.if_exists = options.if_exists;
  write.store = options.store;
  write.resources = {.threads = options.resources.threads, .memory = from.plan.memory};
  write.progress = options.progress;
  write.multiprocessing = options.multiprocessing;
  Tree tree;
  distributed::ProcessGroup(options.multiprocessing)
      .step("convert: leaves", distributed::StepKind::kControl, [&] { tree = make_tree(from); });
  write_msgpack(target, tree, from.plan.targets, fetch, write);
}

}  // namespace cairn::inline v0
