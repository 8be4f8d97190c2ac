// cairn.h -- the umbrella: everything public, and one call each to open, load and save a
// checkpoint.
#pragma once

#include <cairn/array_spec.h>
#include <cairn/bytes.h>
#include <cairn/checkpoint.h>
#include <cairn/checkpointer.h>
#include <cairn/compression.h>
#include <cairn/convert.h>
#include <cairn/diff.h>
#include <cairn/distributed.h>
#include <cairn/dlpack.h>
#include <cairn/error.h>
#include <cairn/format.h>
#include <cairn/handlers.h>
#include <cairn/inspect.h>
#include <cairn/kvstore.h>
#include <cairn/leaf_args.h>
#include <cairn/limits.h>
#include <cairn/maintain.h>
#include <cairn/msgpack.h>
#include <cairn/npz.h>
#include <cairn/orbax.h>
#include <cairn/pytree_checkpoint_handler.h>
#include <cairn/safetensors.h>
#include <cairn/sharding.h>
#include <cairn/structure.h>
#include <cairn/tensor_source.h>
#include <cairn/tensorflow.h>
#include <cairn/transforms.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <memory>
#include <string>
#include <string_view>

namespace cairn {

// "0.1.0"
std::string_view version();

// Opens a checkpoint of any format at a local path, found by looking: an Orbax directory (direct,
// composite, step root, v1, with or without OCDBT), a Zarr array or OCDBT database, a safetensors
// file or its index, an npz or npy file, a flax msgpack file. Throws not_found if nothing is there,
// failed_precondition for an unfinished checkpoint (see allow_uncommitted), invalid_argument for
// something that is no checkpoint (the message says what was looked for).
std::unique_ptr<Checkpoint> open(const std::string& path, const OpenOptions& options = {});

// Opens and reads everything into memory.
Tree load(const std::string& path, const OpenOptions& options = {});

// Saves a tree as an Orbax checkpoint, as save_orbax does.
void save(const std::string& path, const Tree& tree, const SaveOptions& options = {});

}  // namespace cairn
