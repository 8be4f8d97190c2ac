// tree.cc -- accesses, flattens and builds trees.
#include <cairn/tree.h>

#include <cairn/tree/build_tree.h>
#include <cairn/tree/depth.h>
#include <cairn/tree/names.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

namespace cairn::inline v0 {
namespace {

// The empty node that a container without children stands for; nullopt for everything else.
std::optional<EmptyNode> emptiness(const Tree& tree) {
  if (const auto* dict = tree.dict())
    return dict->empty() ? std::optional(EmptyNode::kDict) : std::nullopt;
  if (const auto* list = tree.list())
    return list->empty() ? std::optional(EmptyNode::kList) : std::nullopt;
  if (const auto* tuple = tree.tuple())
    return tuple->items.empty() ? std::optional(EmptyNode::kTuple) : std::nullopt;
  if (const auto* named = tree.named_tuple())
    return named->fields.empty() ? std::optional(EmptyNode::kNamedTuple) : std::nullopt;
  return std::nullopt;
}

using Member = std::pair<std::string, Tree>;

std::vector<const Member*> ordered(const Tree::Dict& members, DictOrder order) {
  std::vector<const Member*> out;
  out.reserve(members.size());
  for (const Member& member : members) out.push_back(&member);
  const auto before = [](const Member* a, const Member* b) { return a->first < b->first; };
  if (order == DictOrder::kSorted && !std::is_sorted(out.begin(), out.end(), before))
    std::stable_sort(out.begin(), out.end(), before);
  return out;
}

// Lists the leaves and the containers without children. Unlike Walker, it builds no tree.
class LeafLister {
 public:
  explicit LeafLister(DictOrder order) : order_(order) {}

  void list(const Tree& tree) {
    check_tree_depth(path_);
    if (const auto empty = emptiness(tree)) return add(Tree(*empty));
    if (const auto* dict = tree.dict()) return list_members(*dict, order_);
    if (const auto* list = tree.list()) return list_items(*list);
    if (const auto* tuple = tree.tuple()) return list_items(tuple->items);
    if (const auto* named = tree.named_tuple())
      return list_members(named->fields, DictOrder::kBuilt);
    add(tree);
  }
  [[nodiscard]] std::vector<TreeEntry> take() { return std::move(entries_); }

 private:
  void add(const Tree& leaf) { entries_.push_back({path_, leaf}); }
  void list_members(const Tree::Dict& members, DictOrder order) {
    entries_.reserve(roomy(members.size()));
    path_.emplace_back();
    for (const Member* member : ordered(members, order)) {
      path_.back().text = member->first;
      list(member->second);
    }
    path_.pop_back();
  }
  void list_items(const Tree::List& items) {
    entries_.reserve(roomy(items.size()));
    path_.push_back({{}, KeyType::kSequence});
    for (std::size_t i = 0; i < items.size(); ++i) {
      path_.back().text = std::to_string(i);
      list(items[i]);
    }
    path_.pop_back();
  }
  // The capacity for at least `more` entries. It grows geometrically, as push_back lets it grow.
  [[nodiscard]] std::size_t roomy(std::size_t more) const {
    const std::size_t needed = entries_.size() + more;
    return needed <= entries_.capacity() ? 0 : std::max(needed, 2 * entries_.capacity());
  }

  DictOrder order_;
  KeyPath path_;
  std::vector<TreeEntry> entries_;
};

// Visits containers, and calls `leaf` for every other node and for containers without children.
class Walker {
 public:
  using LeafFn = std::function<Tree(const KeyPath&, const Tree&)>;
  explicit Walker(const LeafFn& leaf) : leaf_(leaf) {}

  // Returns a tree of the same structure, built from the results of `leaf`.
  Tree walk(const Tree& tree) {
    check_tree_depth(path_);
    if (const auto empty = emptiness(tree)) return leaf_(path_, Tree(*empty));
    if (const auto* dict = tree.dict()) return Tree(walk_members(*dict));
    if (const auto* list = tree.list()) return Tree(walk_items(*list));
    if (const auto* tuple = tree.tuple()) return Tree(Tree::Tuple{walk_items(tuple->items)});
    if (const auto* named = tree.named_tuple())
      return Tree(Tree::NamedTuple{named->module, named->name, walk_members(named->fields)});
    return leaf_(path_, tree);
  }

 private:
  Tree::Dict walk_members(const Tree::Dict& members) {
    Tree::Dict out;
    out.reserve(members.size());
    for (const Member& member : members)
      out.emplace_back(member.first, walk_child({member.first, KeyType::kDict}, member.second));
    return out;
  }
  Tree::List walk_items(const Tree::List& items) {
    Tree::List out;
    out.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i)
      out.push_back(walk_child({std::to_string(i), KeyType::kSequence}, items[i]));
    return out;
  }
  Tree walk_child(Key key, const Tree& child) {
    path_.push_back(std::move(key));
    Tree made = walk(child);
    path_.pop_back();
    return made;
  }

  const LeafFn& leaf_;
  KeyPath path_;
};

bool is_prefix(const KeyPath& shorter, const KeyPath& longer) {
  return shorter.size() <= longer.size() &&
         std::equal(shorter.begin(), shorter.end(), longer.begin());
}

// A leaf, by its path and its number.
struct NumberedPath {
  const KeyPath* path = nullptr;
  std::size_t number = 0;
};

// Sorts the paths and drops those that are a prefix of another one.
std::vector<NumberedPath> sorted_without_prefixes(const std::vector<const KeyPath*>& paths) {
  std::vector<NumberedPath> sorted;
  sorted.reserve(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) sorted.push_back({paths[i], i});
  const auto before = [](const NumberedPath& a, const NumberedPath& b) {
    return key_path_less(*a.path, *b.path);
  };
  // Checkpoints already list their leaves in this order.
  if (!std::is_sorted(sorted.begin(), sorted.end(), before))
    std::stable_sort(sorted.begin(), sorted.end(), before);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const KeyPath& path = *sorted[i].path;
    if (path.size() > kMaxTreeDepth)
      throw Error(Code::kDataLoss, "a key path has " + std::to_string(path.size()) +
                                       " levels: " + too_deep_text(path));
    if (i + 1 < sorted.size() && is_prefix(path, *sorted[i + 1].path)) {
      if (path.size() == sorted[i + 1].path->size())
        throw Error(Code::kInvalidArgument, "two leaves have the name " + quoted_leaf_text(path));
      continue;
    }
    sorted[kept++] = sorted[i];
  }
  sorted.resize(kept);
  return sorted;
}

// Builds the subtree of leaves whose first `depth` keys are equal. They are sorted, so equal keys
// are adjacent.
Tree build(std::span<const NumberedPath> leaves, std::size_t depth,
           const std::function<Tree(std::size_t)>& leaf) {
  const auto path = [&](std::size_t i) -> const KeyPath& { return *leaves[i].path; };
  if (leaves.size() == 1 && path(0).size() == depth) return leaf(leaves[0].number);
  const KeyType type = path(0)[depth].type;
  std::vector<std::size_t> ends;  // of the leaves of each child
  for (std::size_t i = 1; i < leaves.size(); ++i)
    if (path(i)[depth] != path(i - 1)[depth]) ends.push_back(i);
  ends.push_back(leaves.size());
  Tree::Dict dict;
  Tree::List list;
  if (type == KeyType::kDict)
    dict.reserve(ends.size());
  else
    list.reserve(ends.size());
  for (std::size_t first = 0; const std::size_t end : ends) {
    const Key& key = path(first)[depth];
    if (key.type != type) {
      const KeyPath above(path(first).begin(),
                          path(first).begin() + static_cast<std::ptrdiff_t>(depth));
      throw Error(Code::kDataLoss,
                  "the node at " + quoted_leaf_text(above) + " has both sequence and dict keys");
    }
    Tree child = build(leaves.subspan(first, end - first), depth + 1, leaf);
    if (type == KeyType::kDict)
      dict.emplace_back(key.text, std::move(child));
    else
      list.push_back(std::move(child));
    first = end;
  }
  return type == KeyType::kDict ? Tree(std::move(dict)) : Tree(std::move(list));
}

// " has 'a', 'b'", " has 3 items" or " is a leaf", to follow the name of the node.
std::string children_text(const Tree& node) {
  constexpr std::size_t kMaxKeys = 10;
  const Tree::Tuple* const tuple = node.tuple();
  if (const Tree::List* items = tuple != nullptr ? &tuple->items : node.list())
    return " has " + std::to_string(items->size()) + " items";
  const Tree::NamedTuple* const named = node.named_tuple();
  const Tree::Dict* const members = named != nullptr ? &named->fields : node.dict();
  if (members == nullptr)
    return std::holds_alternative<EmptyNode>(node.value()) ? " is empty" : " is a leaf";
  if (members->empty()) return " is empty";
  std::string text;
  for (std::size_t i = 0; i < members->size() && i < kMaxKeys; ++i)
    text += (i == 0 ? " has '" : ", '") + (*members)[i].first + "'";
  if (members->size() > kMaxKeys)
    text += " and " + std::to_string(members->size() - kMaxKeys) + " more";
  return text;
}

// Finds the node of a name whose keys are joined with '.' or '/'. Each node is visited at most
// once, because the keys that lead to it are all of the name before it.
class Lookup {
 public:
  explicit Lookup(std::string_view keys) : keys_(keys) {}

  // The node that the rest of the name after `start` leads to, or nullptr.
  const Tree* find(const Tree& node, std::size_t start) {
    for (std::size_t end = keys_.size();; end = keys_.find_last_of("./", end - 1)) {
      if (end == std::string_view::npos || end < start) return nullptr;
      const Tree* const child = node.find(keys_.substr(start, end - start));
      if (child != nullptr) {
        if (end == keys_.size()) return child;
        if (end >= found_) {
          found_ = end + 1;
          last_ = child;
        }
        if (const Tree* below = find(*child, end + 1)) return below;
      }
      if (end == 0) return nullptr;
    }
  }

  // What to say after find() has failed: how far the name leads.
  [[nodiscard]] std::string failure(const Tree& root) const {
    const std::size_t end = std::min(keys_.find_first_of("./", found_), keys_.size());
    const Tree& last = last_ != nullptr ? *last_ : root;
    return "the tree has no '" + std::string(keys_.substr(0, end)) + "': " +
           (last_ == nullptr ? "the root" : "'" + std::string(keys_.substr(0, found_ - 1)) + "'") +
           children_text(last);
  }

 private:
  std::string_view keys_;
  std::size_t found_ = 0;  // where the name goes on after the keys of last_
  const Tree* last_ = nullptr;
};

}  // namespace

std::string_view empty_node_name(EmptyNode node) {
  switch (node) {
    case EmptyNode::kNone:
      return "None";
    case EmptyNode::kDict:
      return "Dict";
    case EmptyNode::kList:
      return "List";
    case EmptyNode::kTuple:
      return "Tuple";
    case EmptyNode::kNamedTuple:
      return "NamedTuple";
  }
  return "None";
}

std::optional<EmptyNode> empty_node_from_name(std::string_view name) {
  for (const auto node : {EmptyNode::kNone, EmptyNode::kDict, EmptyNode::kList, EmptyNode::kTuple,
                          EmptyNode::kNamedTuple})
    if (name == empty_node_name(node)) return node;
  return std::nullopt;
}

Tree::Tree() noexcept = default;
Tree::Tree(Value value) : value_(std::move(value)) {}
Tree::Tree(const Tree& other) = default;
Tree::Tree(Tree&& other) noexcept = default;
Tree& Tree::operator=(const Tree& other) = default;
Tree& Tree::operator=(Tree&& other) noexcept = default;
Tree::~Tree() = default;
static_assert(std::is_nothrow_move_constructible_v<Tree::Value>);
static_assert(std::is_nothrow_move_assignable_v<Tree::Value>);
Tree::Tree(std::initializer_list<std::pair<std::string, Tree>> members)
    : value_(std::in_place_type<Dict>, members) {}

const Tree* Tree::find(std::string_view key) const {
  const NamedTuple* named = named_tuple();
  if (const Dict* members = named != nullptr ? &named->fields : dict()) {
    const auto it = std::find_if(members->begin(), members->end(),
                                 [&](const auto& member) { return member.first == key; });
    return it == members->end() ? nullptr : &it->second;
  }
  const List* items = tuple() != nullptr ? &tuple()->items : list();
  if (items == nullptr || key.empty() || (key.size() > 1 && key[0] == '0')) return nullptr;
  std::size_t i = 0;
  const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), i);
  return status == std::errc() && end == key.data() + key.size() && i < items->size() ? &(*items)[i]
                                                                                      : nullptr;
}

const Tree& Tree::at(std::string_view keys) const {
  Lookup lookup(keys);
  if (const Tree* node = lookup.find(*this, 0)) return *node;
  throw Error(Code::kNotFound, lookup.failure(*this));
}

std::vector<TreeEntry> flatten(const Tree& tree, DictOrder order) {
  LeafLister lister(order);
  lister.list(tree);
  return lister.take();
}

Tree map_leaves(const Tree& tree, const std::function<Tree(const KeyPath&, const Tree&)>& leaf) {
  return Walker(leaf).walk(tree);
}

Tree unflatten(std::vector<TreeEntry> entries) {
  if (entries.empty())
    throw Error(Code::kInvalidArgument,
                "no entries: a tree without leaves could be a dict or a list");
  std::vector<const KeyPath*> paths;
  paths.reserve(entries.size());
  for (const TreeEntry& entry : entries) paths.push_back(&entry.path);
  return build_tree(paths, [&](std::size_t i) { return std::move(entries[i].value); });
}

Tree build_tree(const std::vector<const KeyPath*>& paths,
                const std::function<Tree(std::size_t)>& leaf) {
  return build(sorted_without_prefixes(paths), 0, leaf);
}

}  // namespace cairn::inline v0
