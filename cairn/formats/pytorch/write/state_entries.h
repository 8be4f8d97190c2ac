// state_entries.h -- a tree as torch.distributed.checkpoint flattens it: tensors and objects, each
// with a name.
#pragma once

#include <cairn/tree.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch {

// The deepest trees that are written; as in the rest of Cairn.
inline constexpr std::size_t kMostLevels = 1000;

// One entry. It borrows from the tree.
struct StateEntry {
  std::string name;  // the steps of the path, joined with '.'
  KeyPath path;
  const Tree* value = nullptr;
  bool is_tensor = false;  // an array in any form; else an object, which is pickled as a whole
};

// Dicts and named tuples are opened, and so are lists that have a tensor or a dict in them; other
// lists and all tuples are objects. Empty dicts have no entry, as PyTorch leaves them out. Throws
// invalid_argument if the tree is no dict, if two entries get one name, and for more than 1000
// levels.
std::vector<StateEntry> flatten_state(const Tree& tree);

}  // namespace cairn::inline v0::pytorch
