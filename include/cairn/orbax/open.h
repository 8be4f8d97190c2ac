// open.h -- opens and saves Orbax checkpoints. An Orbax checkpoint is a directory; a save makes it
// appear complete or not at all.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/options.h>
#include <cairn/tree.h>

#include <memory>
#include <string>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Whether `path` is a directory, or a URL of a store, that looks like an Orbax checkpoint, a step
// root, an item or a bare OCDBT database.
bool is_orbax(const std::string& path, const StoreOptions& store = {});

// Whether the folder of an item, or its URL, holds an OCDBT database: it has a file manifest.ocdbt.
// Orbax's is_ocdbt_checkpoint. Throws io if the system or the store cannot tell.
bool is_ocdbt_checkpoint(const std::string& path, const StoreOptions& store = {});

// Opens an Orbax checkpoint of any layout. Throws as cairn::open, but also opens a checkpoint of
// which nothing is left, so that its info() and verify() can say so.
std::unique_ptr<Checkpoint> open_orbax(const std::string& path, const OpenOptions& options = {});

// Saves a tree as an Orbax checkpoint. At a local path, the data is written to
// <path>.orbax-checkpoint-tmp, synced and renamed, so that a reader finds the whole checkpoint or
// nothing. At a URL it is written in place, and the commit marker last. The leaves go to the
// handlers of default_type_handler_registry(): Array becomes "np.ndarray", ShardedArray
// "jax.Array", a number "scalar". Every value carries a checksum that all readers check, unless the
// compression is kNone or kBlosc.
//
// Throws already_exists if the target exists and may not be replaced, invalid_argument (naming the
// leaf) for a leaf that the format cannot hold, and io if the operating system refuses.
void save_orbax(const std::string& path, const Tree& tree, const SaveOptions& options = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
