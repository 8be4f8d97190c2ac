// structure.h -- compares the structure of a stored tree with the structure of a target tree, and
// fills the target with restored leaves.
#pragma once

#include <cairn/tree.h>

#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// The tree in stored form, as checkpoints record structure: tuples become lists, named tuples
// become dicts. Leaves and empty nodes stay unchanged.
Tree as_stored(const Tree& tree);

// How closely a source must match its target.
enum class MatchMode : std::uint8_t {
  kExact,  // source and target have the same structure
  // Keys that the target lacks are dropped; if the target has None in place of a dict, all of the
  // dict's keys are. Keys that the source lacks keep the target's value.
  kPartial,
};

// One difference between two trees, and what each of them has there: "a leaf", "a dict of 3", "an
// empty List", "nothing".
struct StructureDifference {
  KeyPath path;                // in stored form
  std::string source, target;  // what each tree has there
};

// Every difference that prevents `source` (the stored tree) from being restored into `target`. Both
// are compared in stored form and by structure only: any leaf matches any leaf, and an empty node
// matches a leaf. A Placeholder of the target may be absent from the source. With kPartial, lists
// must still have the same length, and an empty node of the target counts as a leaf, so it does not
// match a container. Throws invalid_argument for a tree more than 1000 levels deep.
std::vector<StructureDifference> structure_differences(const Tree& source, const Tree& target,
                                                       MatchMode fit = MatchMode::kExact);

// Paths of the target's leaves to read from the source, in the order of flatten(target): all that
// the source has, without empty nodes and, with kExact, without placeholders. The paths are valid
// in both trees. Throws invalid_argument that lists every difference; with kExact the message
// mentions partial_restore.
std::vector<KeyPath> plan_restore(const Tree& source, const Tree& target,
                                  MatchMode fit = MatchMode::kExact);

// The target with the values of `restored` in place of the leaves with the same paths. All other
// leaves, the empty nodes and the container types are the target's. Throws invalid_argument for an
// entry that is not a leaf of the target.
Tree fill_target(const Tree& target, std::vector<TreeEntry> restored);

// plan_restore and fill_target in one step, for a source in memory.
Tree restore_into(const Tree& target, const Tree& source, MatchMode fit = MatchMode::kExact);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
