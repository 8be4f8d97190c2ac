// item_writer.h -- writes one pytree item: its arrays through Zarr into a database or folders, and the metadata beside them.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/handlers/array_writer.h>
#include <cairn/tree.h>
#include <cairn/tree/tree_metadata.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoint {

// One leaf or empty node to be saved.
struct SaveLeaf {
  KeyPath path;
  std::string kind;  // typestr: "np.ndarray", "jax.Array", "scalar", "string", "placeholder", "None", "Dict", ...
  std::string text;  // of a string
  // Of an array or scalar. Its elements are in memory, or (data null) are asked for.
  DType dtype = DType::kUint8;         // that they are stored as
  DType source_dtype = DType::kUint8;  // that they are given as
  Shape shape;
  const std::byte* data = nullptr;    // C order
  std::shared_ptr<const void> owner;  // of data; null: the caller owns it
  // Copies a part of the elements out, where they are not in memory; null: the item's fetch does.
  std::function<void(const Box& part, const MutableArrayView& out)> copy;
  Shape write_shape;                        // of the pieces it is to be stored in, 1 at least; empty: all of it is one
  std::string sharding;                     // JSON, as in _sharding; "" for none
  std::string random_key_impl;              // of a typed PRNG key
  std::optional<std::int64_t> chunk_bytes;  // most bytes of a chunk; none: as the options say
  std::vector<std::int64_t> shard_axes;     // that are split first
  int priority = 0;                         // a lower number is written before the first of a higher one is fetched
  // Whether the tree has this leaf. False: an array that a handler stores beside those of leaves.
  bool listed = true;

  [[nodiscard]] bool is_array() const { return kind == "np.ndarray" || kind == "jax.Array" || kind == "scalar"; }
};

// What `_METADATA` says of it.
LeafMetadata leaf_metadata(const SaveLeaf& leaf);

struct SaveItem {
  std::vector<SaveLeaf> leaves;
  std::string custom_metadata;  // JSON text; "" for none
  std::string rich_types;       // the tree with its tuples (tree/rich_types.h); "" to leave that out
  // Called when all values are written, before the tree's metadata is; may be null.
  std::function<void()> values_written = {};
  // Fills boxes of arrays whose data is null; `tensor` is the position of the leaf. Called from one thread at a time, with no
  // more than the memory of the options allows.
  handlers::FetchBoxesFn fetch;
};

// Throws invalid_argument or unimplemented, naming the leaf, before anything is written, for two leaves of one name and for
// what the format cannot hold. The folder must be there; files are not synced.
void write_pytree_item(const std::string& folder, const SaveItem& item, const SaveOptions& options, Executor& executor);

}  // namespace cairn::checkpoint
