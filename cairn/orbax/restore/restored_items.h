// restored_items.h -- restores the items of a checkpoint by their kinds.
#pragma once

#include <cairn/checkpoint_items.h>
#include <cairn/observer.h>

#include <functional>
#include <string>

namespace cairn::inline v0::orbax {

// Restores the tree in a folder.
using RestoreTree = std::function<Tree(const std::string& folder, const PyTreeRestoreArgs& args)>;

// What a restore of items needs besides their names.
struct ItemSources {
  RestoreTree restore_tree;
  std::function<PyTreeMetadata(const std::string& folder)> tree_metadata;
  const FilesReaders& readers;
  const Observer& observer;  // told of an item that nothing can read
};

// Restores the named items of the checkpoint in `path`; no names: all items. Throws not_found for
// an item that is not there, unimplemented for one that neither Cairn nor a reader can read,
// invalid_argument for a checkpoint without items, data_loss for damaged files.
RestoredItems restore_items(const std::string& path, const ItemRequests& requests,
                            const ItemSources& sources);

// The text of a JSON item in its folder `path`. Throws as restore_items().
std::string read_json_file(const std::string& path, std::string_view item);

}  // namespace cairn::inline v0::orbax
