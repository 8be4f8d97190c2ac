// tree.cc -- looking into trees, taking them apart and putting them together.
#include <cairn/tree.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>

namespace cairn {
namespace {

// Trees are handled (and destroyed) recursively. Python's own recursion limit keeps real ones far below this.
constexpr std::size_t kMaxDepth = 1000;

void flatten_into(const Tree& tree, KeyPath& path, std::vector<TreeEntry>& out) {
  if (path.size() > kMaxDepth) throw Error(Code::kInvalidArgument, "the tree is more than " + std::to_string(kMaxDepth) + " levels deep");
  const auto* dict = tree.dict();
  const auto* list = tree.list();
  if (dict != nullptr && !dict->empty()) {
    for (const auto& [name, child] : *dict) {
      path.push_back({name, KeyType::kDict});
      flatten_into(child, path, out);
      path.pop_back();
    }
  } else if (list != nullptr && !list->empty()) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      path.push_back({std::to_string(i), KeyType::kSequence});
      flatten_into((*list)[i], path, out);
      path.pop_back();
    }
  } else {
    // A container without children is an empty node.
    out.push_back({path, dict != nullptr ? Tree(EmptyNode::kDict) : list != nullptr ? Tree(EmptyNode::kList) : tree});
  }
}

bool is_prefix(const KeyPath& shorter, const KeyPath& longer) {
  return shorter.size() <= longer.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

// Sorted entries without those that another one extends.
std::vector<TreeEntry> sorted_without_prefixes(std::vector<TreeEntry> entries) {
  const auto before = [](const TreeEntry& a, const TreeEntry& b) { return key_path_less(a.path, b.path); };
  // Checkpoints list their leaves in this order.
  if (!std::is_sorted(entries.begin(), entries.end(), before)) std::stable_sort(entries.begin(), entries.end(), before);
  std::vector<TreeEntry> kept;
  kept.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].path.size() > kMaxDepth)
      throw Error(Code::kDataLoss, "a key path has " + std::to_string(entries[i].path.size()) + " levels; at most " +
                                       std::to_string(kMaxDepth) + " are allowed");
    if (i + 1 < entries.size() && is_prefix(entries[i].path, entries[i + 1].path)) {
      if (entries[i].path.size() == entries[i + 1].path.size())
        throw Error(Code::kInvalidArgument, "two leaves have the path " + path_text(entries[i].path));
      continue;
    }
    kept.push_back(std::move(entries[i]));
  }
  return kept;
}

// Builds the subtree of entries that agree in their first `depth` keys. They are sorted, so equal keys are neighbours.
Tree build(std::span<TreeEntry> entries, std::size_t depth) {
  if (entries.size() == 1 && entries[0].path.size() == depth) return std::move(entries[0].value);
  const KeyType type = entries[0].path[depth].type;
  Tree::Dict dict;
  Tree::List list;
  for (std::size_t first = 0; first < entries.size();) {
    const Key& key = entries[first].path[depth];
    if (key.type != type) {
      const KeyPath above(entries[first].path.begin(), entries[first].path.begin() + static_cast<std::ptrdiff_t>(depth));
      throw Error(Code::kDataLoss, "the node at '" + path_text(above) + "' has both sequence and dict keys");
    }
    std::size_t last = first + 1;
    while (last < entries.size() && entries[last].path[depth] == key) ++last;
    Tree child = build(entries.subspan(first, last - first), depth + 1);
    if (type == KeyType::kDict)
      dict.emplace_back(std::move(entries[first].path[depth].text), std::move(child));
    else
      list.push_back(std::move(child));
    first = last;
  }
  return type == KeyType::kDict ? Tree(std::move(dict)) : Tree(std::move(list));
}

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

const Tree* Tree::find(std::string_view key) const {
  if (const Dict* members = dict()) {
    const auto it = std::find_if(members->begin(), members->end(), [&](const auto& member) { return member.first == key; });
    return it == members->end() ? nullptr : &it->second;
  }
  const List* items = list();
  if (items == nullptr || key.empty()) return nullptr;
  std::size_t i = 0;
  const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), i);
  return status == std::errc() && end == key.data() + key.size() && i < items->size() ? &(*items)[i] : nullptr;
}

std::vector<TreeEntry> flatten(const Tree& tree) {
  std::vector<TreeEntry> out;
  KeyPath path;
  flatten_into(tree, path, out);
  return out;
}

Tree unflatten(std::vector<TreeEntry> entries) {
  if (entries.empty()) throw Error(Code::kInvalidArgument, "no entries: a tree without leaves could be a dict or a list");
  std::vector<TreeEntry> kept = sorted_without_prefixes(std::move(entries));
  return build(kept, 0);
}

}  // namespace cairn
