// rich_structure.cc -- the structure with the tuples and named tuples that `_METADATA` records, and
// the types of keys.
#include <cairn/base/errors.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/orbax/read/pytree_item.h>
#include <cairn/tree/metadata/key_types.h>
#include <cairn/tree/metadata/rich_types.h>
#include <cairn/tree/names.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

namespace {

[[noreturn]] void fail_lacking(const PytreeItem& item, const KeyPath& path, const char* holder,
                               const char* other) {
  data_loss(item.item.path + ": " + holder + " has a leaf at " + quoted_leaf_text(path) + " that " +
            other + " lacks");
}

}  // namespace

Tree recorded_tree(const PytreeItem& item, std::span<const TensorInfo> leaves,
                   const std::function<Tree(std::size_t)>& make_leaf) {
  std::map<std::string, std::size_t> by_path;
  for (std::size_t i = 0; i < leaves.size(); ++i) by_path.emplace(path_text(leaves[i].path), i);
  return map_leaves(parse_rich_types(item.metadata.rich_types),
                    [&](const KeyPath& path, const Tree& leaf) {
                      const auto found = by_path.find(path_text(path));
                      if (found != by_path.end()) return make_leaf(found->second);
                      if (std::holds_alternative<EmptyNode>(leaf.value())) return leaf;
                      fail_lacking(item, path, "value_metadata_tree", "tree_metadata");
                    });
}

Tree rich_tree(const PytreeItem& item, std::span<const TensorInfo> leaves,
               const std::function<Tree(std::size_t)>& make_leaf) {
  std::vector<bool> recorded(leaves.size());
  Tree tree = recorded_tree(item, leaves, [&](std::size_t i) {
    if (recorded[i])
      fail_lacking(item, leaves[i].path, "value_metadata_tree", "tree_metadata");  // a second one
    recorded[i] = true;
    return make_leaf(i);
  });
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (!recorded[i]) fail_lacking(item, leaves[i].path, "tree_metadata", "value_metadata_tree");
  return tree;
}

Tree OrbaxCheckpoint::rich_tree_of(const std::function<Tree(std::size_t)>& leaf) const {
  // Of several items, some may record more than others; their common tree is the plain one.
  if (items_.size() != 1 || !lost_.empty()) return tree_of(leaf);
  const std::string& types = items_[0].metadata.rich_types;
  if (types.empty() || !may_say_more(types, items_[0].recorded)) return tree_of(leaf);
  return rich_tree(items_[0], tensors_, leaf);
}

std::vector<DictKeyTypes> recorded_key_types(const PytreeItem& item,
                                             std::span<const TensorInfo> leaves) {
  if (item.metadata.key_types.empty()) return {};
  return with_context([&] { return join(item.item.path, std::string(kTreeMetadataFile)); },
                      [&] {
                        std::vector<DictKeyTypes> types = parse_key_types(item.metadata.key_types);
                        std::vector<const KeyPath*> paths;
                        paths.reserve(leaves.size());
                        for (const TensorInfo& leaf : leaves) paths.push_back(&leaf.path);
                        check_key_types(types, paths, Code::kDataLoss);
                        return types;
                      });
}

std::vector<DictKeyTypes> OrbaxCheckpoint::key_types() const {
  std::vector<DictKeyTypes> all;
  std::size_t first = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const std::span leaves = std::span(tensors_).subspan(first, leaf_counts_[i]);
    first += leaf_counts_[i];
    for (DictKeyTypes& types : recorded_key_types(items_[i], leaves)) {
      if (!leaves.empty() && leaves[0].item) types.dict.insert(types.dict.begin(), *leaves[0].item);
      all.push_back(std::move(types));
    }
  }
  return all;
}

}  // namespace cairn::inline v0::orbax
