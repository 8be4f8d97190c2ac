// structure.cc -- compares the structures of two trees, and fills one tree with the leaves of the
// other.
#include <cairn/tree.h>

#include <cairn/tree/depth.h>
#include <cairn/tree/names.h>

#include <map>
#include <optional>
#include <unordered_map>

namespace cairn::inline v0 {
namespace {

// A node in stored form. A node with neither members nor items is a leaf. Containers without
// children have empty members or items.
struct Node {
  const Tree::Dict* members = nullptr;
  const Tree::List* items = nullptr;
  std::optional<EmptyNode> empty;  // set for nodes without children, and for None

  explicit Node(const Tree& tree) {
    if (const auto* named = tree.named_tuple()) members = &named->fields;
    if (const auto* dict = tree.dict()) members = dict;
    if (const auto* tuple = tree.tuple()) items = &tuple->items;
    if (const auto* list = tree.list()) items = list;
    if (const auto* node = std::get_if<EmptyNode>(&tree.value())) empty = *node;
    if (members != nullptr && members->empty())
      empty = tree.dict() != nullptr ? EmptyNode::kDict : EmptyNode::kNamedTuple;
    if (items != nullptr && items->empty())
      empty = tree.list() != nullptr ? EmptyNode::kList : EmptyNode::kTuple;
  }
  [[nodiscard]] bool is_leaf() const { return empty || (members == nullptr && items == nullptr); }

  [[nodiscard]] std::string text() const {
    if (empty)
      return *empty == EmptyNode::kNone ? "None"
                                        : "an empty " + std::string(empty_node_name(*empty));
    if (members != nullptr) return "a dict of " + std::to_string(members->size());
    if (items != nullptr) return "a list of " + std::to_string(items->size());
    return "a leaf";
  }
};

bool is_placeholder(const Tree& tree) { return std::holds_alternative<Placeholder>(tree.value()); }

// A leaf of the target that takes its value from the source.
struct Pair {
  KeyPath path;
  const Tree* value = nullptr;
};

class Comparison {
 public:
  explicit Comparison(MatchMode fit) : fit_(fit) {}

  std::vector<StructureDifference> differences;
  std::vector<Pair> pairs;  // in the target's order

  void compare(const Tree& source, const Tree& target) {
    check_tree_depth(path_);
    const Node from(source);
    const Node to(target);
    if (from.is_leaf() && to.is_leaf()) {
      if (!to.empty && !(fit_ == MatchMode::kExact && is_placeholder(target)))
        pairs.push_back({path_, &source});
      return;
    }
    // A None in place of a dict takes none of its members.
    if (fit_ == MatchMode::kPartial && from.members != nullptr && to.empty == EmptyNode::kNone)
      return;
    // In an exact fit, an empty dict or list is compared, too: its missing children are known.
    const bool comparable = !from.is_leaf() && (!to.is_leaf() || fit_ == MatchMode::kExact);
    const bool both_dicts =
        from.members != nullptr && (to.members != nullptr || to.empty == EmptyNode::kDict);
    const bool both_lists =
        from.items != nullptr && to.items != nullptr && from.items->size() == to.items->size();
    if (comparable && both_dicts)
      compare_members(*from.members, to.members != nullptr ? *to.members : Tree::Dict());
    else if (comparable && both_lists)
      compare_items(*from.items, *to.items);
    else
      differences.push_back({path_, from.text(), to.text()});
  }

 private:
  void compare_members(const Tree::Dict& source, const Tree::Dict& target) {
    std::unordered_map<std::string_view, const Tree*> in_source;
    for (const auto& [key, child] : source) in_source.emplace(key, &child);
    for (const auto& [key, child] : target) {
      const auto found = in_source.find(key);
      path_.push_back({key, KeyType::kDict});
      if (found != in_source.end()) {
        compare(*found->second, child);
        in_source.erase(found);
      } else if (fit_ == MatchMode::kExact && !is_placeholder(child)) {
        differences.push_back({path_, "nothing", Node(child).text()});
      }
      path_.pop_back();
    }
    if (fit_ == MatchMode::kPartial) return;
    for (const auto& [key, child] : source) {
      if (in_source.count(key) == 0) continue;
      path_.push_back({key, KeyType::kDict});
      differences.push_back({path_, Node(child).text(), "nothing"});
      path_.pop_back();
    }
  }
  void compare_items(const Tree::List& source, const Tree::List& target) {
    for (std::size_t i = 0; i < source.size(); ++i) {
      path_.push_back({std::to_string(i), KeyType::kSequence});
      compare(source[i], target[i]);
      path_.pop_back();
    }
  }

  MatchMode fit_;
  KeyPath path_;
};

[[noreturn]] void refuse(const std::vector<StructureDifference>& differences, MatchMode fit) {
  std::string text = "the checkpoint does not have the structure of the target; they differ at " +
                     std::to_string(differences.size()) +
                     (differences.size() == 1 ? " path:" : " paths:");
  for (const auto& difference : differences)
    text.append("\n  ")
        .append(leaf_text(difference.path))
        .append(": source: ")
        .append(difference.source)
        .append(", target: ")
        .append(difference.target);
  if (fit == MatchMode::kExact)
    text += "\nTo restore only the leaves that the target has, set partial_restore.";
  throw Error(Code::kInvalidArgument, text);
}

std::vector<Pair> pairs_of(const Tree& source, const Tree& target, MatchMode fit) {
  Comparison comparison(fit);
  comparison.compare(source, target);
  if (!comparison.differences.empty()) refuse(comparison.differences, fit);
  return std::move(comparison.pairs);
}

struct PathLess {
  bool operator()(const KeyPath& a, const KeyPath& b) const { return key_path_less(a, b); }
};

class Pourer {
 public:
  explicit Pourer(std::vector<TreeEntry> restored) {
    for (auto& entry : restored)
      values_.insert_or_assign(std::move(entry.path), std::move(entry.value));
  }

  Tree fill(const Tree& target) {
    check_tree_depth(path_);
    if (Node(target).is_leaf()) return leaf(target);
    if (const auto* dict = target.dict()) return Tree(fill_members(*dict));
    if (const auto* named = target.named_tuple())
      return Tree(Tree::NamedTuple{named->module, named->name, fill_members(named->fields)});
    if (const auto* tuple = target.tuple()) return Tree(Tree::Tuple{fill_items(tuple->items)});
    return Tree(fill_items(*target.list()));
  }
  void check_all_used() const {
    if (!values_.empty())
      throw Error(Code::kInvalidArgument, "a restored value has no leaf in the target: " +
                                              quoted_leaf_text(values_.begin()->first));
  }

 private:
  Tree leaf(const Tree& target) {
    if (Node(target).empty) return target;
    auto found = values_.extract(path_);
    if (found.empty()) return target;
    return std::move(found.mapped());
  }
  Tree::Dict fill_members(const Tree::Dict& members) {
    Tree::Dict out;
    out.reserve(members.size());
    for (const auto& [key, child] : members) {
      path_.push_back({key, KeyType::kDict});
      out.emplace_back(key, fill(child));
      path_.pop_back();
    }
    return out;
  }
  Tree::List fill_items(const Tree::List& items) {
    Tree::List out;
    out.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      path_.push_back({std::to_string(i), KeyType::kSequence});
      out.push_back(fill(items[i]));
      path_.pop_back();
    }
    return out;
  }

  std::map<KeyPath, Tree, PathLess> values_;
  KeyPath path_;
};

Tree as_stored(const Tree& tree, std::size_t depth) {
  check_tree_depth(depth);
  const Node node(tree);
  if (node.is_leaf()) return tree;
  if (node.members != nullptr) {
    Tree::Dict out;
    for (const auto& [key, child] : *node.members)
      out.emplace_back(key, as_stored(child, depth + 1));
    return Tree(std::move(out));
  }
  Tree::List out;
  for (const auto& child : *node.items) out.push_back(as_stored(child, depth + 1));
  return Tree(std::move(out));
}

}  // namespace

Tree as_stored(const Tree& tree) { return as_stored(tree, 0); }

std::vector<StructureDifference> structure_differences(const Tree& source, const Tree& target,
                                                       MatchMode fit) {
  Comparison comparison(fit);
  comparison.compare(source, target);
  return std::move(comparison.differences);
}

std::vector<KeyPath> plan_restore(const Tree& source, const Tree& target, MatchMode fit) {
  std::vector<KeyPath> paths;
  for (Pair& pair : pairs_of(source, target, fit)) paths.push_back(std::move(pair.path));
  return paths;
}

Tree fill_target(const Tree& target, std::vector<TreeEntry> restored) {
  Pourer pourer(std::move(restored));
  Tree out = pourer.fill(target);
  pourer.check_all_used();
  return out;
}

Tree restore_into(const Tree& target, const Tree& source, MatchMode fit) {
  std::vector<TreeEntry> restored;
  for (Pair& pair : pairs_of(source, target, fit))
    restored.push_back({std::move(pair.path), *pair.value});
  return fill_target(target, std::move(restored));
}

}  // namespace cairn::inline v0
