// leaf_args.h -- finds the arguments of single leaves in the trees that users pass.
#pragma once

#include <cairn/orbax/leaf_args.h>
#include <cairn/tree.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::inline v0::orbax {

// Finds nodes of one tree, which must outlive it, by their paths. Tree::find() compares the keys of
// a dict one by one. For all members of a large dict, that would take quadratic time.
class NodeFinder {
 public:
  explicit NodeFinder(const Tree& tree) : root_(&tree) {}
  // Without a tree, no node is found.
  explicit NodeFinder(const std::optional<Tree>& tree) : root_(tree ? &*tree : nullptr) {}

  // The node at a path; nullptr if it does not exist.
  const Tree* at(const KeyPath& path);

 private:
  using Members = std::unordered_map<std::string_view, const Tree*>;
  const Tree* child(const Tree& node, const std::string& key);

  const Tree* root_;
  std::unordered_map<const Tree*, Members> large_;  // the dicts with many members
};

// The arguments that `args` has at the place of each leaf: SaveArgs, or RestoreArgs and those of
// arrays. Null, None, and leaves that are not such arguments, stand for the defaults. Throws
// invalid_argument, listing the places, if the trees differ in structure.
std::vector<SaveArgs> save_args_for(const std::vector<TreeEntry>& leaves, const Tree& tree,
                                    const Tree* args);
AnyRestoreArgs restore_args_at(NodeFinder& args, const KeyPath& path);

// Throws as save_args_for does unless the arguments have the structure of the tree. If they may
// have more, they need a place for each of its leaves.
void check_restore_args(const Tree& tree, const Tree& args, bool may_have_more);

// Fills arguments that an array's arguments leave open from its target leaf. This is Orbax's rule
// for ArrayRestoreArgs; it applies to strict arguments and to arrays whose rank is not 0.
void fill_from_target(AnyRestoreArgs& args, const Tree& target_leaf);

}  // namespace cairn::inline v0::orbax
