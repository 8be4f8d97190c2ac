// state_entries.cc -- Source of the rules: what torch 2.13 makes of nested state dicts.
#include <cairn/formats/pytorch/write/state_entries.h>

#include <cairn/base/errors.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tensor_source.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

bool is_tensor(const Tree& tree) {
  if (tree.array() != nullptr || std::holds_alternative<NumpyScalar>(tree.value())) return true;
  if (const auto* source = tree.custom<SourceLeaf>()) return source->as == SourceLeaf::As::kArray;
  return tree.custom<ShardedArray>() != nullptr;
}

bool is_dict(const Tree& tree) {
  const auto* empty = std::get_if<EmptyNode>(&tree.value());
  return tree.dict() != nullptr || std::holds_alternative<Tree::NamedTuple>(tree.value()) ||
         (empty != nullptr && (*empty == EmptyNode::kDict || *empty == EmptyNode::kNamedTuple));
}

// Whether the list is opened.
bool has_entries(const Tree::List& list, std::size_t depth = 0) {
  return depth < kMostLevels && std::ranges::any_of(list, [&](const Tree& item) {
           return is_tensor(item) || is_dict(item) ||
                  (item.list() != nullptr && has_entries(*item.list(), depth + 1));
         });
}

class Flattener {
 public:
  std::vector<StateEntry> run(const Tree& tree) {
    if (!is_dict(tree))
      invalid_argument("a Distributed Checkpoint holds a dict; the root of this tree is none");
    value(tree);
    std::vector<std::string_view> names;
    for (const StateEntry& entry : entries_) names.emplace_back(entry.name);
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
      invalid_argument(
          fmt::format("two entries of the Distributed Checkpoint would be named "
                      "\"{}\": a key has a '.'",
                      *twice));
    return std::move(entries_);
  }

 private:
  void value(const Tree& tree) {
    if (path_.size() > kMostLevels)
      invalid_argument(fmt::format("the tree has more than {} levels", kMostLevels));
    if (const auto* dict = tree.dict()) return members(*dict);
    if (const auto* tuple = std::get_if<Tree::NamedTuple>(&tree.value()))
      return members(tuple->fields);
    if (is_dict(tree)) return;  // an empty one
    const auto* list = tree.list();
    if (list == nullptr || !has_entries(*list)) return add(tree);
    for (std::size_t i = 0; i < list->size(); ++i)
      child({std::to_string(i), KeyType::kSequence}, (*list)[i]);
  }

  void members(const Tree::Dict& dict) {
    for (const auto& [key, member] : dict) child({key, KeyType::kDict}, member);
  }

  void child(Key key, const Tree& tree) {
    const std::size_t length = name_.size();
    if (!path_.empty()) name_ += '.';
    name_ += key.text;
    path_.push_back(std::move(key));
    value(tree);
    path_.pop_back();
    name_.resize(length);
  }

  void add(const Tree& tree) {
    entries_.push_back(
        {.name = name_, .path = path_, .value = &tree, .is_tensor = is_tensor(tree)});
  }

  KeyPath path_;
  std::string name_;
  std::vector<StateEntry> entries_;
};

}  // namespace

std::vector<StateEntry> flatten_state(const Tree& tree) { return Flattener().run(tree); }

}  // namespace cairn::inline v0::pytorch
