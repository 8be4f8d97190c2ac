// item_writer.h -- writes one pytree item, alone or with other processes: arrays through Zarr into
// a database or folders, and the metadata beside them.
//
// What several processes write, each its pieces (Orbax's layout):
//   ocdbt.process_<i>/, ocdbt.process_replica_<i>/    each its own databases, to be merged; the
//   primary's have the arrays' metadata <array>/0.0, <array>/.zarray                      without
//   OCDBT: all into the same folders, metadata by the primary array_metadatas/process_<i> each what
//   it takes the arrays to be _METADATA, _sharding, _strings.json               the primary alone
#pragma once

#include <cairn/base/executor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/handlers/array_writer.h>
#include <cairn/orbax.h>
#include <cairn/tree.h>
#include <cairn/tree/tree_metadata.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::orbax {

// One leaf or empty node to be saved.
struct SaveLeaf {
  KeyPath path;
  // typestr: "np.ndarray", "jax.Array", "scalar", "string", "placeholder", "None", "Dict", ...
  std::string kind;
  std::string text;  // of a string
  // Of an array or scalar. Its elements are in memory, or (data null) are asked for.
  DType dtype = DType::kUint8;         // that they are stored as
  DType source_dtype = DType::kUint8;  // that they are given as
  Shape shape;
  const std::byte* data = nullptr;    // C order
  std::shared_ptr<const void> owner;  // of data; null: the caller owns it
  // Copies a part of the elements out, where they are not in memory; null: the item's fetch does.
  std::function<void(const Box& part, const MutableArrayView& out)> copy;
  // of the pieces it is to be stored in, 1 at least; empty: all of it is one
  Shape write_shape;
  std::string sharding;                     // JSON, as in _sharding; "" for none
  std::string random_key_impl;              // of a typed PRNG key
  std::optional<std::int64_t> chunk_bytes;  // most bytes of a chunk; none: as the options say
  std::vector<std::int64_t> shard_axes;     // that are split first
  std::optional<Shape> write_chunk_shape;   // as in SaveArgs
  std::optional<Shape> read_chunk_shape;
  std::string metadata_key;  // what the array's metadata is called; "": as usual
  // a lower number is written before the first of a higher one is fetched
  int priority = 0;
  // Of a jax.Array that several processes store: what this one does; `owner` keeps what the parts
  // point to.
  std::optional<std::vector<handlers::ArrayPart>> parts;
  // where processes have databases of their own: not in the common one
  bool in_replica_folder = false;
  // Whether the tree has this leaf. False: an array that a handler stores beside those of leaves.
  bool listed = true;

  [[nodiscard]] bool is_array() const {
    return kind == "np.ndarray" || kind == "jax.Array" || kind == "scalar";
  }
};

// What `_METADATA` says of it.
LeafMetadata leaf_metadata(const SaveLeaf& leaf);

struct SaveItem {
  std::vector<SaveLeaf> leaves;
  // Every process has all leaves, and can fetch any of their elements: of several each writes a
  // share of the chunks. No leaf has parts or is in memory.
  bool dealt = false;
  std::string custom_metadata;  // JSON text; "" for none
  // the tree with its tuples (tree/rich_types.h); "" to leave that out
  std::string rich_types;
  // Called when all values are written, before the tree's metadata is; may be null.
  std::function<void()> values_written = {};
  // Fills boxes of arrays whose data is null; `tensor` is the position of the leaf. Called from one
  // thread at a time, with no more than the memory of the options allows.
  handlers::FetchBoxesFn fetch;
};

// Throws invalid_argument or unimplemented, naming the leaf, before anything is written, for two
// leaves of one name, for what the format cannot hold, and for arrays on which the processes
// disagree. The folder must be there. Returns when all processes have written; of one that is
// alone, files are not synced.
void write_pytree_item(const std::string& folder, const SaveItem& item, const SaveOptions& options,
                       Executor& executor, const distributed::ProcessGroup& group);

}  // namespace cairn::orbax
