// completeness.h -- finds what a checkpoint lacks, from its records alone: the rest of a step that
// was copied only in part. Reads no array.
#pragma once

#include <cairn/io/tree/folder_handle.h>
#include <cairn/orbax/layout/layout.h>

#include <string>

namespace cairn::inline v0::orbax {

// Returns the first thing that the records of the checkpoint name and that is not there as a whole,
// and which record names it, with paths relative to the checkpoint; "" if there is none. The
// records, and what they name:
//
//   _CHECKPOINT_METADATA   the items; `_METADATA` of those that are trees
//   _METADATA              the database or the folder of each array; the file of the strings
//   manifest.ocdbt         the nodes of the newest version, and the data files up to the end of the
//                          last value in each
//   .zarray, zarr.json     the chunks, if `_METADATA` says that all are stored; their sizes if they
//                          are stored as they are
//
// A record that is damaged counts as missing. Throws io if something cannot be read, unavailable if
// the checkpoint has been replaced or removed meanwhile.
std::string find_missing(const Layout& layout);

// Returns why the folder is not a complete checkpoint: it holds none, its save has not ended, or
// find_missing() has found something. "" if it is complete. Throws as find_missing().
std::string why_incomplete(const FolderPtr& folder);

}  // namespace cairn::inline v0::orbax
