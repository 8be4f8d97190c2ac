// key_faults.h -- finds leaves whose keys form no tree.
#pragma once

#include <cairn/tree.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// A leaf whose keys do not fit those of the leaves before it.
struct KeyFault {
  std::size_t leaf = 0;   // position in the given paths
  std::size_t depth = 0;  // the number of keys that lead to the faulty node
  std::string message;
};

// Finds lists that lack an item before another one, and nodes with items of a list and keys of a
// dict. Orbax restores no tree that has one. The paths are in any order, and all differ.
std::vector<KeyFault> find_key_faults(std::span<const KeyPath* const> paths);

// Turns each node with a fault into a dict whose keys are the indices. The names of the leaves stay
// the same.
void turn_faulty_nodes_into_dicts(std::span<KeyPath* const> paths);

}  // namespace cairn::inline v0
