// open.h -- opens, loads and saves a checkpoint in one call each.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/options.h>
#include <cairn/tree.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

enum class TargetFormat : std::uint8_t;  // convert.h

// The library's version: "MAJOR.MINOR.PATCH".
std::string_view version();

// Opens a checkpoint of any format at a local path (a plain path or file:///path) or in a store
// (s3://bucket/key, gs://bucket/key; OpenOptions::store) and reads its metadata. The format is
// recognised by content: an Orbax directory (direct, composite, step root, v1, with or without
// OCDBT), a Zarr array or OCDBT database, a TensorFlow checkpoint (its prefix or a file or folder
// of it), a safetensors file, its index or a model folder, an npz or npy file, a file of
// torch.save (nothing in it is executed), or a flax msgpack file or the folder of several steps.
//
// Throws not_found if nothing is there, failed_precondition for an unfinished checkpoint (see
// OpenOptions::allow_uncommitted), invalid_argument for anything that is not a checkpoint (the
// message lists what was looked for), unimplemented for other URL schemes, and data_loss if nothing
// is left of what the checkpoint records. If other processes replace or remove the checkpoint
// meanwhile, it opens what is there then; if they do so again and again, it throws unavailable.
std::unique_ptr<Checkpoint> open(const std::string& path, const OpenOptions& options = {});

// Opens a checkpoint as open() and reads everything into memory, as Checkpoint::load.
Tree load(const std::string& path, const OpenOptions& options = {});

// Saves a tree at a local path or a URL (s3://, gs://), in the format of its extension
// (save_format_of):
//   *.safetensors, *.npz   the arrays and numbers, under names like "params.dense.kernel"
//   *.msgpack              the state of flax (MsgpackDialect::kFlaxState)
//   no known extension     a folder: an Orbax checkpoint, as save_orbax
// It appears complete or not at all. For a file, only these options count, and others are
// invalid_argument: if_exists, resources, store, progress, save_timeout, cancel; for safetensors
// also custom_metadata, whose entries become those of __metadata__ (a value that is not a string:
// its JSON). Throws invalid_argument for the extension of a file of another program (.pt, .h5, ...)
// and for a leaf that the format cannot hold, unimplemented for a TensorFlow checkpoint (.index),
// and else as save_orbax.
void save(const std::string& path, const Tree& tree, const SaveOptions& options = {});
// The same in a given format, whatever the extension. kOrbaxZarr3 sets use_zarr3, kOrbaxFiles
// clears use_ocdbt.
void save_as(TargetFormat format, const std::string& path, const Tree& tree,
             const SaveOptions& options = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
