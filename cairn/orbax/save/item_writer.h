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
#include <cairn/base/memory/raw_bytes.h>
#include <cairn/distributed/process_group.h>
#include <cairn/handlers/array_writer.h>
#include <cairn/kvstore/folders/output_folder.h>
#include <cairn/options.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/reuse/item_reuse.h>
#include <cairn/tree.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {

// A string to be stored.
struct SaveString {
  std::string name;  // parameter name
  std::string text;
  std::string file = {};  // name of the JSON file; "": _strings.json
};

// The leaves and settings of one item.
struct SaveItem {
  // The leaves and empty nodes, the custom metadata and the rich types. The writer sets the members
  // that say how the arrays are stored.
  TreeMetadata tree;
  // All arrays and numbers, in the order in which they are stored. Those without elements of their
  // own are requested through `fetch`.
  LargeVector<StoreArray> arrays;
  std::vector<SaveString> strings;
  // True if every process has all arrays and can fetch any of their elements. Several processes
  // then each write a share of the chunks. In this mode no array has `parts` or `data`.
  bool dealt = false;
  handlers::DeviceCopies copies = {};  // limits the copies from devices
  ItemReuse reuse = {};
  // Counts the bytes that this process stores. Its total holds `expected_bytes` of the item until
  // the item is planned. Null: nothing is counted.
  Progress* progress = nullptr;
  std::uint64_t expected_bytes = 0;
  // Called after all values are written and before the tree's metadata is written. May be null.
  std::function<void()> values_written = {};
  // Fills boxes of arrays; `tensor` is the position in `arrays`. Only one thread calls it at a
  // time, with at most the memory that the options allow.
  handlers::FetchBoxesFn fetch = {};
};

// Returns the words for a storage format, in which processes compare theirs.
std::string format_text(bool use_ocdbt, bool use_zarr3);
// Returns the entry of `_METADATA` for a leaf of a kind (a typestr), without its write_shape.
LeafMetadata leaf_metadata(KeyPath path, std::string kind);
// The bytes of the elements that this process seems to store, before the item is planned. Never
// throws: the shapes are not yet checked.
std::uint64_t stored_bytes(const SaveItem& item);
// Whether leaves of the kind are stored as arrays.
bool is_array_kind(std::string_view kind);
// Records in the leaf and in its array whether the array is a device array, as the leaf's kind
// says, and in which pieces it is stored. Call it when the shapes of the array are final.
void link(LeafMetadata& leaf, StoreArray& array);

// What this process stored of an item.
struct WrittenItem {
  std::uint64_t stored_bytes = 0;  // of the values of arrays
  CompressionReport compression;   // empty unless Compression::kAuto decided
};
// Writes the item to `folder`, which must exist. Returns when all processes have written. If the
// process is single, files are not synced. Before it writes anything, it throws invalid_argument or
// unimplemented and names the leaf, in these cases: two leaves have the same name, the format
// cannot hold a leaf, or the processes describe an array differently.
WrittenItem write_pytree_item(const OutputFolder& folder, SaveItem item, const SaveOptions& options,
                              Executor& executor, const distributed::ProcessGroup& group);

}  // namespace cairn::inline v0::orbax
