// cairn.h -- the umbrella header: includes the public API and declares cairn::open, cairn::load and
// cairn::save.
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

// Saves a tree as an Orbax checkpoint at a local path. Same as save_orbax.
void save(const std::string& path, const Tree& tree, const SaveOptions& options = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
