// save.h -- saves a whole checkpoint with one item or several, for leaves from any source.
#pragma once

#include <cairn/distributed.h>
#include <cairn/orbax/commit/pending_checkpoint.h>
#include <cairn/orbax/save/copied_item.h>
#include <cairn/orbax/save/item_writer.h>

#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// One pytree of a save.
struct SavedTree {
  std::string name = {};  // of the item; unused if the tree is the whole checkpoint
  SaveItem item;
  SaveOptions options;  // how its arrays are stored
};
// The content of a checkpoint.
struct ItemsSave {
  CheckpointContent content;  // names every tree and every copy; names none if there is one tree
  std::vector<SavedTree> trees;
  std::vector<CopiedItem> copies = {};
};

// Saves a checkpoint, as cairn::save_orbax does. The custom metadata comes from `save` and not from
// the options. If several processes save together, each writes its share of the leaves, and the
// primary makes the copies. Returns what this process compressed.
CompressionReport save_items(const std::string& path, ItemsSave save, const SaveOptions& options,
                             const MultiprocessingOptions& job = {});

}  // namespace cairn::inline v0::orbax
