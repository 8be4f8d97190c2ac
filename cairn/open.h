// open.h -- opens, loads and saves a checkpoint in one call each.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/orbax.h>
#include <cairn/tree.h>

#include <memory>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// The library's version: "0.1.0".
std::string_view version();

// Opens a checkpoint of any format at a local path (a plain path or file:///path) and reads its
// metadata. The format is recognised by content: an Orbax directory (direct, composite, step root,
// v1, with or without OCDBT), a Zarr array or OCDBT database, a TensorFlow checkpoint (its prefix
// or a file or folder of it), a safetensors file, its index or a model folder, an npz or npy file,
// or a flax msgpack file.
//
// Throws not_found if nothing is there, failed_precondition for an unfinished checkpoint (see
// OpenOptions::allow_uncommitted), invalid_argument for anything that is not a checkpoint (the
// message lists what was looked for), and unimplemented for other URL schemes.
std::unique_ptr<Checkpoint> open(const std::string& path, const OpenOptions& options = {});

// Opens a checkpoint as open() and reads everything into memory, as Checkpoint::load.
Tree load(const std::string& path, const OpenOptions& options = {});

// Saves a tree as an Orbax checkpoint at a local path, as save_orbax. Throws invalid_argument for a
// path with the extension of a file (.npz, .pt, ...: see save_format_of), so that no folder gets
// such a name by mistake.
void save(const std::string& path, const Tree& tree, const SaveOptions& options = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
