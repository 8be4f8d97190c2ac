// structure.h -- does what a checkpoint holds fit the tree it is restored into? And pouring leaves
// into that tree.
#pragma once

#include <cairn/tree.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

// A tree as checkpoints store its structure: tuples as lists, named tuples as dicts. Leaves and
// empty nodes stay as they are.
Tree as_stored(const Tree& tree);

enum class MatchMode : std::uint8_t {
  kExact,  // source and target have the same structure
  // Keys that the target lacks are dropped, all of a dict's where the target has None; keys that
  // the source lacks keep the target's value.
  kPartial,
};

// One place where two trees differ, and what each has there: "a leaf", "a dict of 3", "an empty
// List", "nothing".
struct StructureDifference {
  KeyPath path;  // in stored form
  std::string source, target;
};

// Every difference that keeps `source` (what is stored) from being restored into `target`. Both are
// compared in stored form and by structure alone: leaves fit each other whatever they are, and
// empty nodes fit leaves. A Placeholder in the target need not be in the source. Partial: lists
// must still be of one length, and an empty node of the target stands for a leaf, so it fits no
// container.
std::vector<StructureDifference> structure_differences(const Tree& source, const Tree& target,
                                                       MatchMode fit = MatchMode::kExact);

// The leaves of the target that are to be read from the source, in the order of flatten(target):
// all that the source has but empty nodes and, where the fit is exact, placeholders. The paths are
// those of target and source alike. Throws invalid_argument that lists every difference; those of
// an exact fit come with a hint at partial_restore.
std::vector<KeyPath> plan_restore(const Tree& source, const Tree& target,
                                  MatchMode fit = MatchMode::kExact);

// The target with the values of `restored` in the place of the leaves that have their paths. All
// other leaves, empty nodes and the types of the containers are the target's; an entry that is no
// leaf of the target is invalid_argument.
Tree fill_target(const Tree& target, std::vector<TreeEntry> restored);

// plan_restore and fill_target at once, for a source that is in memory.
Tree restore_into(const Tree& target, const Tree& source, MatchMode fit = MatchMode::kExact);

}  // namespace cairn
