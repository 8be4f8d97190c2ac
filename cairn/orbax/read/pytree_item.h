// pytree_item.h -- opens one pytree of a checkpoint: finds its leaves and the location of each
// value.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/handlers/array_reader.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/storage/kvstore.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {

// The source of the tree's structure.
enum class Structure : std::uint8_t {
  kTreeMetadata,  // `_METADATA`
  kAggregate,     // the legacy msgpack file
  // Only the names of the arrays: Orbax checkpoints without either file, and bare Zarr arrays.
  kNames,
};

// Where the arrays are stored.
enum class ArrayStorage : std::uint8_t {
  kFolders,   // one folder per parameter
  kOcdbt,     // in one OCDBT database
  kUnmerged,  // in the databases of the processes, which are not merged yet
};

// An array that is stored in the aggregate file: its C-order bytes, as consecutive pieces.
struct InsideValue {
  std::shared_ptr<const void> file;  // keeps the bytes of the pieces alive
  std::vector<ByteView> pieces;
  bool is_little_endian = true;  // the pieces lie in the file; else they have the machine's order
};

// The value of a leaf that is not stored as an array: an array of the aggregate file (`inside`), or
// a string of that file or of a file of strings (`text`). Both are null for a stored array.
struct LeafValue {
  std::shared_ptr<const InsideValue> inside;
  std::shared_ptr<const std::string> text;
  bool is_aggregated = false;  // the aggregate file has the value
};

// A file that exists but cannot be used, and the reason.
struct BrokenFile {
  std::string file;
  std::string why;
  Code code = Code::kDataLoss;
};

// An opened pytree item. A vector that is "parallel to tensors" has one element per tensor, in the
// same order.
struct PytreeItem {
  Item item;
  StorePtr files;   // the item's folder
  StorePtr arrays;  // holds the arrays' keys; null if the database cannot be opened
  Structure structure = Structure::kNames;
  ArrayStorage storage = ArrayStorage::kFolders;
  OcdbtVersion version;                      // the opened version of the database
  std::vector<std::string> process_folders;  // ocdbt.process_*
  TreeMetadata metadata;                     // without leaves; the leaves are in `tensors`
  // True if the legacy msgpack file holds values and not only placeholders.
  bool has_aggregated_values = false;
  // Where T5X stored arrays: leaf name -> folder, relative to the item's. Empty: under their names.
  std::map<std::string, std::string> array_folders;
  // the number of tensors that `_METADATA` records; they come first in `tensors`
  std::size_t recorded = 0;
  // The write shapes that `_METADATA` records; one element per recorded leaf. Orbax takes them from
  // array_metadatas.
  std::vector<std::optional<Shape>> write_shapes;
  // Whether `_METADATA` says that nothing is stored; one element per recorded leaf.
  std::vector<bool> skipped;
  zarr::MissingChunk missing = zarr::MissingChunk::kFill;
  int zarr_format = 0;      // 0: not recorded
  bool has_arrays = false;  // true if any leaf is stored in `arrays`
  // Orbax wrote the item, and the file that lists its leaves is missing. Nothing else can tell
  // whether the tree is complete.
  bool lacks_structure = false;
  std::vector<TensorInfo> tensors;
  handlers::StoredArrays stored;  // parallel to tensors
  std::vector<LeafValue> values;  // parallel to tensors
  std::vector<ListEntry> keys;    // all entries of `arrays`
  // Maps each non-standard name of array metadata to the arrays that use it.
  std::map<std::string, std::vector<std::string>> custom_keys;
  // The names of the files in array_metadatas, sorted.
  std::vector<std::string> array_metadata_files;
  // Pairs of file and reason, for files that could not be read.
  std::vector<std::pair<std::string, std::string>> unread_array_metadata;
  // True if the item has a file of shardings.
  bool has_shardings = false;
  // Maps the names of typed PRNG keys to their implementations.
  std::map<std::string, std::string> random_keys;
  std::vector<BrokenFile> broken;
  // Name of the file with the strings, if it is not _strings.json.
  std::string strings_file;

  // Records an error as the reason why `file` cannot be used.
  void note_broken(const std::string& file, const Error& error);
  // Runs f, and records an error that it throws.
  template <class F>
  void try_file(const std::string& file, F f) {
    try {
      f();
    } catch (const Error& e) {
      note_broken(file, e);
    }
  }
};

// True if the caller requests a version.
inline bool is_version(const OcdbtVersion& version) {
  return version.generation || version.commit_time_ns;
}

// True if a type handler that Cairn does not have stores leaves of this kind. Only that handler
// knows where the value is.
bool is_custom_kind(std::string_view kind);

// Opens an item and its arrays. A missing or damaged array becomes a tensor with an error. Throws
// only if the structure itself cannot be read, or if the database does not have the version that
// the options request. `arrays`: the keys of an OCDBT database to read instead of the item's own.
PytreeItem open_pytree_item(const Item& item, LayoutKind kind, const OpenOptions& options,
                            const StorePtr& arrays = nullptr);

// Returns the tree with the tuples and named tuples that `_METADATA` records, and make_leaf(i) in
// place of leaves[i]; `leaves` are the item's tensors. As in Orbax, leaves that are not recorded
// are left out. Throws if the record is damaged or has other leaves. The item must have a record:
// `metadata.rich_types` is not empty.
Tree recorded_tree(const PytreeItem& item, std::span<const TensorInfo> leaves,
                   const std::function<Tree(std::size_t)>& make_leaf);

// The same, but throws unless each leaf is recorded once.
Tree rich_tree(const PytreeItem& item, std::span<const TensorInfo> leaves,
               const std::function<Tree(std::size_t)>& make_leaf);

// The types of keys that `_METADATA` records for the tree with these leaves. Throws data_loss if
// the record is damaged or does not fit them.
std::vector<DictKeyTypes> recorded_key_types(const PytreeItem& item,
                                             std::span<const TensorInfo> leaves);

// As open_pytree_item, but without opening the arrays: the arrays are of LeafKind::kUnknown, and
// `stored` and `keys` are empty. Use it if only a few arrays are needed. If no file describes the
// tree, the item has no tensors.
PytreeItem open_pytree_structure(const Item& item, const OpenOptions& options);

// Throws Error(kUnavailable) if the item's path now names another folder than the open one.
void check_not_replaced(const PytreeItem& item);

// Returns the array of a leaf that is stored in the aggregate file, as one contiguous array.
Array inside_array(const InsideValue& value, const TensorInfo& leaf);

}  // namespace cairn::inline v0::orbax
