// standard_restore_args.cc -- the restore arguments that StandardCheckpointHandler derives from its
// target and from what is stored.
#include <cairn/orbax/checkpoint_items.h>

#include <cairn/base/errors.h>
#include <cairn/orbax/open.h>
#include <cairn/orbax/sharding.h>
#include <cairn/orbax/type_handler.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

using KeyNames = std::vector<std::string>;

KeyNames key_names(const KeyPath& path) {
  KeyNames names;
  for (const Key& key : path) names.push_back(key.text);
  return names;
}

bool is_standard(const Tree& leaf) {
  return leaf.array() != nullptr || leaf.custom<ShardedArray>() != nullptr ||
         leaf.custom<ShapeDtypeStruct>() != nullptr || std::holds_alternative<bool>(leaf.value()) ||
         std::holds_alternative<std::int64_t>(leaf.value()) ||
         std::holds_alternative<std::uint64_t>(leaf.value()) ||
         std::holds_alternative<double>(leaf.value()) ||
         std::holds_alternative<EmptyNode>(leaf.value());
}

// The sharding with which an array is restored that has this stored one.
std::optional<Sharding> usable(const KeyPath& path, const ValueMetadata& stored,
                               const StandardRestoreArgs& args) {
  if (!stored.sharding) return std::nullopt;
  const bool is_known = !std::holds_alternative<UnknownSharding>(*stored.sharding);
  if (args.devices.empty() && (is_known || !args.fallback_sharding)) return stored.sharding;
  Result<Sharding> found = usable_sharding(*stored.sharding, args.devices);
  if (found) return std::move(found).value();
  if (args.fallback_sharding) return args.fallback_sharding;
  invalid_argument("the leaf " + path_text(path) + ": " + found.error().message() +
                   "; give a target with shardings, or fallback_sharding");
}

// Completes the leaves of a target by what is stored.
class Completion {
 public:
  Completion(const Tree& stored, const StandardRestoreArgs& args) : args_(args) {
    for (const TreeEntry& entry : flatten(stored))
      if (const auto* leaf = entry.value.custom<ValueMetadata>())
        stored_.emplace(key_names(entry.path), *leaf);
  }

  Tree operator()(const KeyPath& path, const Tree& leaf) const {
    if (!is_standard(leaf))
      invalid_argument("the leaf " + path_text(path) +
                       " of the target is neither an array nor a number");
    const auto* wanted = leaf.custom<ShapeDtypeStruct>();
    if (wanted == nullptr || wanted->sharding) return leaf;
    const auto found = stored_.find(key_names(path));
    if (found == stored_.end())
      invalid_argument("the leaf " + path_text(path) +
                       " of the target is not stored, so it has no sharding");
    ShapeDtypeStruct completed = *wanted;
    completed.sharding = usable(path, found->second, args_);
    return Tree(CustomLeaf::of(std::move(completed)));
  }

 private:
  const StandardRestoreArgs& args_;
  std::map<KeyNames, ValueMetadata> stored_;
};

// The metadata of a leaf, with the sharding with which it is restored.
Tree with_usable_sharding(const KeyPath& path, const Tree& leaf, const StandardRestoreArgs& args) {
  const auto* stored = leaf.custom<ValueMetadata>();
  if (stored == nullptr) return leaf;
  ValueMetadata completed = *stored;
  completed.sharding = usable(path, *stored, args);
  return Tree(CustomLeaf::of(std::move(completed)));
}

Tree not_strict(const KeyPath& /*path*/, const Tree& leaf) {
  const auto* args = leaf.custom<ArrayRestoreArgs>();
  if (args == nullptr) return leaf;
  ArrayRestoreArgs changed = *args;
  changed.strict = false;
  return Tree(changed);
}

}  // namespace

PyTreeRestoreArgs standard_restore_args(const StandardRestoreArgs& args,
                                        const PyTreeMetadata& stored) {
  PyTreeRestoreArgs result;
  result.item = args.item;
  const auto keep_stored = [&](const KeyPath& path, const Tree& leaf) {
    return with_usable_sharding(path, leaf, args);
  };
  result.restore_args =
      construct_restore_args(args.item ? map_leaves(*args.item, Completion(stored.tree, args))
                                       : map_leaves(stored.tree, keep_stored));
  if (!args.strict) result.restore_args = map_leaves(*result.restore_args, not_strict);
  return result;
}

}  // namespace cairn::inline v0
