// leaf_args.h -- the arguments of single leaves, out of the trees in which users give them.
#pragma once

#include <cairn/leaf_args.h>
#include <cairn/tree.h>

#include <optional>
#include <vector>

namespace cairn::orbax {

// For each leaf the arguments that `args` has in its place: of SaveArgs, or RestoreArgs and those
// of arrays. None, and what is no such arguments, stand for the defaults. Throws invalid_argument,
// listing the places, if the trees are not of one structure.
std::vector<SaveArgs> save_args_for(const std::vector<TreeEntry>& leaves, const Tree& tree,
                                    const std::optional<Tree>& args);
AnyRestoreArgs restore_args_at(const std::optional<Tree>& args, const KeyPath& path);

// Throws as save_args_for unless the arguments have the structure of the tree they are for; or, if
// they may have more, a place for each of its leaves.
void check_restore_args(const Tree& tree, const Tree& args, bool may_have_more);

// What a target leaf says about itself, where the arguments of an array leave it open: Orbax's rule
// for ArrayRestoreArgs, which holds for strict ones and for arrays that are not of rank 0.
void fill_from_target(AnyRestoreArgs& args, const Tree& target_leaf);

// The node of a tree at a path; nullptr if there is none.
const Tree* node_at(const Tree& tree, const KeyPath& path);

}  // namespace cairn::orbax
