// item_writer.h -- writes one pytree item, as a single process or together with other processes.
// Arrays go through Zarr into a database or into folders; the metadata files are written beside
// them.
//
// Several processes write these files (Orbax's layout):
//   ocdbt.process_<i>/, ocdbt.process_replica_<i>/    each its own databases, to be merged; the
//                                                     primary's have the arrays' metadata
//   <array>/0.0, <array>/.zarray                      without OCDBT: all into the same folders,
//                                                     metadata by the primary
//   array_metadatas/process_<i>                       each what it takes the arrays to be
//   _METADATA, _sharding, _strings.json               the primary alone
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

namespace cairn::inline v0::orbax {

// One leaf or empty node to save.
struct SaveLeaf {
  KeyPath path;
  // typestr: "np.ndarray", "jax.Array", "scalar", "string", "placeholder", "None", "Dict", ...
  std::string kind;
  std::string text;  // the value of a string
  // For an array or scalar. If `data` is null, the writer requests the elements through `copy` or
  // fetch.
  DType dtype = DType::kUint8;         // the stored element type
  DType source_dtype = DType::kUint8;  // the element type of `data`
  Shape shape;
  const std::byte* data = nullptr;    // C order
  std::shared_ptr<const void> owner;  // keeps `data` alive; null: the caller owns the data
  // Copies a part of the elements to `out`, if they are not in memory. Null: the item's `fetch`
  // supplies them.
  std::function<void(const Box& part, const MutableArrayView& out)> copy;
  // The shape of the pieces in which the array is stored; every dimension is at least 1. Empty: the
  // whole array is one piece.
  Shape write_shape;
  std::string sharding;         // JSON, as in _sharding; "" for none
  std::string random_key_impl;  // the implementation of a typed PRNG key
  // the maximum bytes of a chunk; nullopt: from the options
  std::optional<std::int64_t> chunk_bytes;
  std::vector<std::int64_t> shard_axes;    // the axes that are split first
  std::optional<Shape> write_chunk_shape;  // as in SaveArgs
  std::optional<Shape> read_chunk_shape;
  std::string metadata_key;  // the name of the array's metadata; "": the usual name
  // All leaves of a lower number are written before the first leaf of a higher number is fetched.
  int priority = 0;
  // For a jax.Array that several processes store: the parts that this process stores. `owner` keeps
  // the data of the parts alive.
  std::optional<std::vector<handlers::ArrayPart>> parts;
  // If processes have separate databases: the array goes to the replica database and not to the
  // common one.
  bool in_replica_folder = false;
  // True if the leaf is part of the tree. False for an array that a handler stores beside the
  // arrays of leaves.
  bool listed = true;

  [[nodiscard]] bool is_array() const {
    return kind == "np.ndarray" || kind == "jax.Array" || kind == "scalar";
  }
};

// Returns the entry of `_METADATA` for the leaf.
LeafMetadata leaf_metadata(const SaveLeaf& leaf);

// The leaves and settings of one item.
struct SaveItem {
  std::vector<SaveLeaf> leaves;
  // True if every process has all leaves and can fetch any of their elements. Several processes
  // then each write a share of the chunks. In this mode no leaf has `parts` or `data`.
  bool dealt = false;
  std::string custom_metadata;  // JSON text; "" for none
  // The text of the tree with its tuples (tree/rich_types.h). "" to omit it.
  std::string rich_types;
  // Called after all values are written and before the tree's metadata is written. May be null.
  std::function<void()> values_written = {};
  // Fills boxes of arrays whose `data` is null; `tensor` is the position of the leaf. Only one
  // thread calls it at a time, with at most the memory that the options allow.
  handlers::FetchBoxesFn fetch;
};

// Writes the item to `folder`, which must exist. Returns when all processes have written. If the
// process is single, files are not synced. Before it writes anything, it throws invalid_argument or
// unimplemented and names the leaf, in these cases: two leaves have the same name, the format
// cannot hold a leaf, or the processes describe an array differently.
void write_pytree_item(const std::string& folder, const SaveItem& item, const SaveOptions& options,
                       Executor& executor, const distributed::ProcessGroup& group);

}  // namespace cairn::inline v0::orbax
