// store_removal.h -- removes and copies checkpoints in a store, where nothing can be renamed: at
// every moment readers find the whole checkpoint, an unfinished one, or nothing.
#pragma once

#include <cairn/error.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/storage/kvstore.h>

#include <string>

namespace cairn::inline v0::orbax {

// Throws already_exists unless the folder holds a checkpoint and, with ForeignFiles::kRefuse,
// nothing else.
void check_removable_in_store(const FolderPtr& folder, ForeignFiles foreign);

// Removes the checkpoint `folder`, which has a final '/'. Throws as check_removable_in_store().
// `path` is its URL. Does nothing if nothing is there, or if another removal or save takes it
// meanwhile.
void remove_checkpoint_in_store(const StorePtr& store, const std::string& folder,
                                const std::string& path,
                                ForeignFiles foreign = ForeignFiles::kRefuse);

// A folder in a store: its URL, and its keys' prefix with a final '/'.
struct StorePlace {
  std::string url;
  std::string folder;
};
// Copies a checkpoint to a place where nothing is, its marker last. A claim in place of its record
// keeps others away, and says until then that the copy is unfinished. Throws as
// check_removable_in_store(), not_found, already_exists if something is at `to`, and unavailable if
// another program writes there at the same time.
void copy_checkpoint_in_store(const StorePtr& store, const StorePlace& from, const StorePlace& to,
                              ForeignFiles foreign);

// Throws unless what is in a folder may go as the rest of a save or of a removal: already_exists if
// it holds anything besides a checkpoint, failed_precondition if it may be whole, because its
// records name a time of its commit and it lacks nothing but the marker. `folder` counts as
// unfinished.
void check_leftover_in_store(const FolderPtr& folder, ForeignFiles foreign = ForeignFiles::kRefuse);

}  // namespace cairn::inline v0::orbax
