// leaf_args.cc -- looks up the arguments of leaves.
#include <cairn/handlers/leaf_args.h>

#include <cairn/error.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree.h>
#include <cairn/tree/names.h>

#include <string>

namespace cairn::inline v0::orbax {
namespace {

// Throws unless the arguments have the structure of the tree they belong to.
void check_structure(const Tree& tree, const Tree& args) {
  const auto differences = structure_differences(as_stored(args), as_stored(tree));
  if (differences.empty()) return;
  std::string text = "the structure of the arguments does not match the tree:";
  for (const auto& difference : differences)
    text += "\n  " + leaf_text(difference.path) + ": " + difference.source + " in the arguments, " +
            difference.target + " in the tree";
  throw Error(Code::kInvalidArgument, text);
}

struct Described {
  Shape shape;
  std::optional<DType> dtype;
};

std::optional<Described> description_of(const Tree& leaf) {
  if (const Array* array = leaf.array()) return Described{array->shape(), array->dtype()};
  if (const auto* wanted = leaf.custom<ShapeDtypeStruct>())
    return Described{wanted->shape, wanted->dtype};
  if (const auto* stored = leaf.custom<ValueMetadata>(); stored != nullptr && stored->shape)
    return Described{*stored->shape, stored->dtype};
  const auto* sharded = leaf.custom<ShardedArray>();
  if (sharded != nullptr && sharded->random_key_impl.empty())
    return Described{sharded->shape, sharded->dtype};
  return std::nullopt;
}

}  // namespace

const Tree* NodeFinder::at(const KeyPath& path) {
  const Tree* node = root_;
  for (const Key& key : path) {
    if (node == nullptr) break;
    node = child(*node, key.text);
  }
  return node;
}

const Tree* NodeFinder::child(const Tree& node, const std::string& key) {
  constexpr std::size_t kLarge = 16;
  const Tree::NamedTuple* const named = node.named_tuple();
  const Tree::Dict* const members = named != nullptr ? &named->fields : node.dict();
  if (members == nullptr || members->size() < kLarge) return node.find(key);
  Members& table = large_[&node];
  if (table.empty()) {
    table.reserve(members->size());
    for (const auto& [name, member] : *members) table.try_emplace(name, &member);
  }
  const auto found = table.find(key);
  return found == table.end() ? nullptr : found->second;
}

std::vector<SaveArgs> save_args_for(const std::vector<TreeEntry>& leaves, const Tree& tree,
                                    const Tree* args) {
  std::vector<SaveArgs> out(leaves.size());
  if (args == nullptr) return out;
  check_structure(tree, *args);
  NodeFinder finder(*args);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Tree* node = finder.at(leaves[i].path);
    if (const auto* given = node == nullptr ? nullptr : node->custom<SaveArgs>()) out[i] = *given;
  }
  return out;
}

void check_restore_args(const Tree& tree, const Tree& args, bool may_have_more) {
  if (!may_have_more) return check_structure(tree, args);
  NodeFinder finder(args);
  for (const TreeEntry& entry : flatten(as_stored(tree)))
    if (!std::holds_alternative<EmptyNode>(entry.value.value()) && finder.at(entry.path) == nullptr)
      throw Error(
          Code::kInvalidArgument,
          "the restore_args have nothing at " + quoted_leaf_text(entry.path) +
              ", where the target has a leaf; give RestoreArgs there, or None for the defaults");
}

AnyRestoreArgs restore_args_at(NodeFinder& args, const KeyPath& path) {
  const Tree* node = args.at(path);
  if (node == nullptr) return RestoreArgs{};
  if (const auto* given = node->custom<SingleReplicaArrayRestoreArgs>()) return *given;
  if (const auto* given = node->custom<ArrayRestoreArgs>()) return *given;
  if (const auto* given = node->custom<RestoreArgs>()) return *given;
  return RestoreArgs{};
}

void fill_from_target(AnyRestoreArgs& args, const Tree& target_leaf) {
  ArrayRestoreArgs* array = array_restore_args(args);
  if (array == nullptr || !array->strict) return;
  const auto target = description_of(target_leaf);
  if (!target || target->shape.empty()) return;
  if (!array->global_shape && !array->shape) array->global_shape = target->shape;
  if (!array->dtype) array->dtype = target->dtype;
}

}  // namespace cairn::inline v0::orbax
