// leaf_args.h -- finds the arguments of single leaves in the trees that users pass.
#pragma once

#include <cairn/leaf_args.h>
#include <cairn/tree.h>

#include <optional>
#include <vector>

namespace cairn::inline v0::orbax {

// The arguments that `args` has at the place of each leaf: SaveArgs, or RestoreArgs and those of
// arrays. Null, None, and leaves that are not such arguments, stand for the defaults. Throws
// invalid_argument, listing the places, if the trees differ in structure.
std::vector<SaveArgs> save_args_for(const std::vector<TreeEntry>& leaves, const Tree& tree,
                                    const Tree* args);
AnyRestoreArgs restore_args_at(const std::optional<Tree>& args, const KeyPath& path);

// Throws as save_args_for does unless the arguments have the structure of the tree. If they may
// have more, they need a place for each of its leaves.
void check_restore_args(const Tree& tree, const Tree& args, bool may_have_more);

// Fills arguments that an array's arguments leave open from its target leaf. This is Orbax's rule
// for ArrayRestoreArgs; it applies to strict arguments and to arrays whose rank is not 0.
void fill_from_target(AnyRestoreArgs& args, const Tree& target_leaf);

// The node of a tree at a path; nullptr if it does not exist.
const Tree* node_at(const Tree& tree, const KeyPath& path);

}  // namespace cairn::inline v0::orbax
