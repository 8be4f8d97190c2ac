// restored_items.h -- restores the items of a checkpoint by their kinds.
#pragma once

#include <cairn/observer.h>
#include <cairn/orbax/checkpoint_items.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {

// What an item is restored with.
struct ItemRestorers {
  const PyTreeCheckpointHandler& handler;  // of trees
  const FilesReaders& readers;
  const Observer& observer;  // told of an item that nothing can read
  const StoreOptions& store;
};

// Restores the named items of the checkpoint in `path`; no names: all items. Throws not_found for
// an item that is not there, unimplemented for one that neither Cairn nor a reader can read,
// invalid_argument for a checkpoint without items, data_loss for damaged files.
RestoredItems restore_items(const std::string& path, const ItemRequests& requests,
                            const ItemRestorers& restorers);

// The text of a JSON item in its folder `path`. Throws as restore_items().
std::string read_json_file(const std::string& path, std::string_view item,
                           const StoreOptions& store);

}  // namespace cairn::inline v0::orbax
