// detect.h -- which kind of checkpoint a directory holds, judging by the names in it.
#pragma once

#include <cairn/orbax/layout/layout.h>

#include <string>

namespace cairn::inline v0::orbax {

// Returns true if the directory has the database of a process.
bool has_process_database(const Listing& listing);

// Searches the folders below for arrays, breadth first. Parameter names may contain '/', so arrays
// can lie in deeper folders. Each folder is listed once, even if several symbolic links lead to it.
// A folder that holds a file named `metadata_key` counts, too, unless that is "".
bool has_arrays_below(const Listing& listing, const std::string& metadata_key = "");

bool is_pytree(const Item& item);

// Fills `layout` if files in the directory mark it as a checkpoint; otherwise returns false.
bool look_at_marked(const Listing& listing, Layout& layout);
// A composite checkpoint that is older than _CHECKPOINT_METADATA: only its items have marker files.
// Unfinished items count only in a folder that is itself unfinished; elsewhere they are separate
// checkpoints.
// Fills `layout` if the directory is one.
bool look_at_unmarked(const Listing& listing, Layout& layout);
// Fills `layout` if `path` is a checkpoint (not a root); otherwise returns false.
bool look_at_checkpoint(const Listing& listing, Layout& layout);

// Whether a folder holds items that are not trees, in a checkpoint that is older than
// _CHECKPOINT_METADATA.
bool has_other_items(const Listing& listing);

}  // namespace cairn::inline v0::orbax
