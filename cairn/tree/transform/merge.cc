// merge.cc -- merges and intersects trees by their paths.
#include <cairn/orbax/transforms.h>

#include <cairn/base/errors.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::inline v0 {
namespace {

using Path = std::vector<std::string>;

// The leaves of a tree by the texts of their keys.
struct Leaf {
  Path path;
  Tree value;
};

Path texts(const KeyPath& path) {
  Path keys;
  for (const Key& key : path) keys.push_back(key.text);
  return keys;
}

std::string path_text(const Path& path) {
  std::string text;
  for (const std::string& key : path) text.append(text.empty() ? "" : "/").append(key);
  return text;
}

bool is_leaf(const Tree& tree) { return !std::holds_alternative<EmptyNode>(tree.value()); }

std::vector<Leaf> leaves_of(const Tree& tree) {
  std::vector<Leaf> leaves;
  for (TreeEntry& entry : flatten(tree, DictOrder::kSorted))
    if (is_leaf(entry.value)) leaves.push_back({texts(entry.path), std::move(entry.value)});
  return leaves;
}

[[noreturn]] void refuse_both(const Path& path) {
  invalid_argument("'" + path_text(path) + "' is a leaf in one tree and has members in another");
}

// A dict with a dict for each level. Members keep the order of the leaves.
Tree as_dicts(std::vector<Leaf> leaves) {
  Tree result{Tree::Dict{}};
  for (Leaf& leaf : leaves) {
    if (leaf.path.empty()) {
      if (leaves.size() > 1) refuse_both(leaf.path);
      return std::move(leaf.value);
    }
    Tree* node = &result;
    for (const std::string& key : leaf.path) {
      auto* dict = std::get_if<Tree::Dict>(&node->value());
      if (dict == nullptr) refuse_both(leaf.path);
      auto found = std::ranges::find(*dict, key, &std::pair<std::string, Tree>::first);
      if (found == dict->end())
        found = dict->insert(dict->end(), {key, Tree(Tree::Dict{})});
      else if (&key == &leaf.path.back())
        refuse_both(leaf.path);
      node = &found->second;
    }
    *node = std::move(leaf.value);
  }
  return result;
}

Tree in_target(std::vector<Leaf> leaves, const Tree& target) {
  std::map<Path, Tree> by_path;
  for (Leaf& leaf : leaves) by_path.emplace(std::move(leaf.path), std::move(leaf.value));
  return map_leaves(target, [&](const KeyPath& path, const Tree& value) {
    if (!is_leaf(value)) return value;
    const auto found = by_path.find(texts(path));
    if (found == by_path.end())
      throw Error(Code::kNotFound,
                  "none of the trees has the leaf '" + path_text(texts(path)) + "' of the target");
    return found->second;
  });
}

Tree result_of(std::vector<Leaf> leaves, const std::optional<Tree>& target) {
  return target ? in_target(std::move(leaves), *target) : as_dicts(std::move(leaves));
}

}  // namespace

Tree merge_trees(std::span<const Tree> trees, const std::optional<Tree>& target) {
  std::vector<Leaf> merged;
  std::map<Path, std::size_t> positions;
  for (const Tree& tree : trees)
    for (Leaf& leaf : leaves_of(tree)) {
      const auto [place, is_new] = positions.try_emplace(leaf.path, merged.size());
      if (is_new)
        merged.push_back(std::move(leaf));
      else
        merged[place->second].value = std::move(leaf.value);
    }
  return result_of(std::move(merged), target);
}

Tree intersect_trees(std::span<const Tree> trees, const std::optional<Tree>& target) {
  if (trees.empty()) invalid_argument("there are no trees to intersect");
  std::map<Path, std::size_t> counts;
  for (const Tree& tree : trees)
    for (Leaf& leaf : leaves_of(tree)) ++counts[std::move(leaf.path)];
  std::vector<Leaf> common = leaves_of(trees.back());
  std::erase_if(common, [&](const Leaf& leaf) { return counts.at(leaf.path) != trees.size(); });
  return result_of(std::move(common), target);
}

}  // namespace cairn::inline v0
