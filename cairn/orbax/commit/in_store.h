// in_store.h -- the checkpoints of an object store, which are written in place (in_place.h).
#pragma once

#include <cairn/io/tree/folder_handle.h>
#include <cairn/storage/kvstore.h>

#include <string>

namespace cairn::inline v0::orbax {

// Whether a save or a removal has left the folder unfinished: nothing is written in it yet, or it
// has a start time but no commit time, no handlers and no marker.
bool is_unfinished(const FolderHandle& folder);

// Removes the values of a checkpoint: all keys that begin with `folder`, which is "" or ends in
// '/'. The marker goes first and the record last, so that a kill leaves something unfinished.
// Succeeds if there are none.
void remove_in_store(KvStore& store, const std::string& folder);

}  // namespace cairn::inline v0::orbax
