#include <cairn/formats/pytorch/distributed/nested_paths.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::size_t kMostSteps = 500;  // levels
// Lists may lack items, as PyTorch does not store empty dicts; but not any number.
constexpr std::uint64_t kMostMissing = 10'000;

struct Node {
  std::vector<std::pair<PathStep, std::unique_ptr<Node>>> children;
  std::unordered_map<std::string, std::size_t> by_text;
  std::optional<std::size_t> value;

  // nullptr: the step clashes with one that has the same text and another type.
  Node* child(const PathStep& step) {
    const auto [known, is_new] = by_text.emplace(step.text, children.size());
    if (is_new) children.emplace_back(step, std::make_unique<Node>());
    auto& found = children[known->second];
    return found.first == step ? found.second.get() : nullptr;
  }
};

// Returns false if the path is taken, or leads through a value.
bool insert(Node& root, const StatePath& path, std::size_t value) {
  if (path.size() > kMostSteps) return false;
  Node* node = &root;
  for (const PathStep& step : path) {
    if (node->value) return false;
    node = node->child(step);
    if (node == nullptr) return false;
  }
  if (node->value || !node->children.empty()) return false;
  node->value = value;
  return true;
}

std::uint64_t index_of(const PathStep& step) {
  std::uint64_t index = 0;
  std::from_chars(step.text.data(), step.text.data() + step.text.size(), index);
  return index;
}

class Emission {
 public:
  Emission(const std::function<Tree(std::size_t, const KeyPath&)>& leaf,
           const std::function<Tree(const KeyPath&)>& none)
      : leaf_(leaf), none_(none) {}

  Tree emit(Node& node) {
    if (node.value) return leaf_(*node.value, path_);
    return is_list(node) ? list(node) : dict(node);
  }

 private:
  bool is_list(const Node& node) {
    const auto is_index = [](const auto& child) { return child.first.is_index; };
    if (node.children.empty() || !std::ranges::all_of(node.children, is_index)) return false;
    std::uint64_t last = 0;
    for (const auto& [step, child] : node.children) last = std::max(last, index_of(step));
    if (last >= node.children.size() + missing_left_) return false;
    missing_left_ -= last + 1 - node.children.size();
    return true;
  }

  Tree dict(Node& node) {
    Tree::Dict members;
    members.reserve(node.children.size());
    for (auto& [step, child] : node.children)
      members.emplace_back(step.text, below({step.text, KeyType::kDict}, child.get()));
    return Tree(std::move(members));
  }

  Tree list(Node& node) {
    std::ranges::sort(node.children, {}, [](const auto& child) { return index_of(child.first); });
    Tree::List items;
    for (auto& [step, child] : node.children) {
      while (items.size() < index_of(step))
        items.push_back(below({std::to_string(items.size()), KeyType::kSequence}, nullptr));
      items.push_back(below({step.text, KeyType::kSequence}, child.get()));
    }
    return Tree(std::move(items));
  }

  Tree below(Key key, Node* child) {
    path_.push_back(std::move(key));
    Tree tree = child == nullptr ? none_(path_) : emit(*child);
    path_.pop_back();
    return tree;
  }

  const std::function<Tree(std::size_t, const KeyPath&)>& leaf_;
  const std::function<Tree(const KeyPath&)>& none_;
  KeyPath path_;
  std::uint64_t missing_left_ = kMostMissing;  // items that lists may still lack
};

}  // namespace

Tree nest(const std::vector<StatePath>& paths, const std::vector<std::string>& names,
          const std::function<Tree(std::size_t i, const KeyPath& path)>& leaf,
          const std::function<Tree(const KeyPath& path)>& none) {
  Node root;
  bool fits = true;
  for (std::size_t i = 0; fits && i < paths.size(); ++i) fits = insert(root, paths[i], i);
  if (!fits) {
    root = {};
    for (std::size_t i = 0; i < names.size(); ++i) insert(root, {{.text = names[i]}}, i);
  }
  return Emission(leaf, none).emit(root);
}

}  // namespace cairn::inline v0::pytorch
