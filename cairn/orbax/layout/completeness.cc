// completeness.cc -- compares the records of a checkpoint with the names and sizes of its files.
#include <cairn/orbax/layout/completeness.h>

#include <cairn/base/executor.h>
#include <cairn/base/json/json.h>
#include <cairn/base/json/scan.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/ocdbt/read/short_files.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/storage/kvstore.h>
#include <cairn/tree/metadata/tree_metadata.h>
#include <cairn/zarr/metadata/array_metadata.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

// The largest JSON file that is parsed only to see whether it is whole.
constexpr std::uint64_t kMaxParsedItem = std::uint64_t{16} << 20U;

[[noreturn]] void missing(const std::string& path, const std::string& record) {
  throw Error(Code::kNotFound, path + " is missing, though " + record);
}

std::string text_of(const FolderPtr& folder, const std::string& path) {
  return std::string(as_text(folder->read_text(path, kMaxMetadataFile)));
}

// Throws data_loss if the file is not JSON, as half of a JSON file is not. A very large one only
// has to be there.
void check_json(const FolderPtr& folder, const std::string& file) {
  const auto opened = folder->try_open(file);
  if (!opened || opened->size() > kMaxParsedItem) return;
  with_context([&] { return file; }, [&] { (void)parse_json(text_of(folder, file)); });
}

// ---- the arrays of a tree without a database ----

// Whether Orbax's own handlers have stored an array for the leaf, under its name.
bool is_array(const LeafMetadata& leaf) {
  constexpr std::string_view kTypes[] = {"jax.Array", "np.ndarray", "scalar"};
  return !leaf.skip_deserialize && std::ranges::find(kTypes, leaf.value_type) != std::end(kTypes);
}

// A chunk has a name of digits and dots, or lies in the folder `c`.
bool is_chunk(std::string_view name) {
  return name == "c" || name.find_first_not_of("0123456789.") == std::string_view::npos;
}

class ArrayFolders {
 public:
  ArrayFolders(const Item& item, const TreeMetadata& tree)
      : tree_(tree), folder_(item.folder->open_below(item.path)), store_(files_of(folder_)) {}

  void check(const LeafMetadata& leaf) const {
    const std::string name = param_name(leaf.path);
    const std::string file = tree_.use_zarr3 ? "zarr.json" : ".zarray";
    const std::string key = name.empty() ? file : name + "/" + file;
    const auto text = store_->read_at_most(key, zarr::kMaxMetadataBytes);
    if (!text) {
      if (!has_metadata_of_another_name(name))
        missing(store_->describe(key), "_METADATA has an array '" + name + "'");
      return;
    }
    const auto parsed = try_call([&] {
      return tree_.use_zarr3 ? zarr::parse_zarr_json(as_text(*text))
                             : zarr::parse_zarray(as_text(*text));
    });
    if (parsed) return check_chunks(name, parsed.value(), file);
    if (parsed.error().code() == Code::kUnimplemented) return;
    throw Error(parsed.error().code(), store_->describe(key) + ": " + parsed.error().message());
  }

 private:
  // TensorStore lets a program choose the name of the metadata file.
  [[nodiscard]] bool has_metadata_of_another_name(const std::string& name) const {
    const Listing listing = list_directory(folder_, join(folder_->path(), name));
    return !std::ranges::all_of(listing.files, is_chunk);
  }

  // The first missing chunk ends the loop, so it runs no longer than there are files.
  void check_chunks(const std::string& name, const zarr::ArrayMetadata& array,
                    const std::string& file) const {
    if (!tree_.store_array_data_equal_to_fill_value) return;
    if (std::ranges::count(array.shape, 0) > 0) return;
    const Box whole = {.origin = std::vector<std::int64_t>(array.shape.size()),
                       .shape = array.shape};
    for (zarr::ChunkCursor chunk(whole, array.chunk_shape); !chunk.done(); chunk.next()) {
      std::string key = array.keys.key(chunk.part().position);
      if (!name.empty()) key = name + "/" + key;
      const auto size = store_->size(key);
      if (!size) missing(store_->describe(key), file + " has this chunk");
      const std::uint64_t least = array.codecs.raw() ? array.codecs.nbytes : 1;
      if (*size < least)
        throw Error(Code::kDataLoss, store_->describe(key) + " has " + std::to_string(*size) +
                                         " bytes; expected at least " + std::to_string(least));
    }
  }

  const TreeMetadata& tree_;
  FolderPtr folder_;  // of its own: many threads use it
  StorePtr store_;
};

// Checks all arrays in parallel. Reports the first in the order of the tree.
void check_folders(const Item& item, const TreeMetadata& tree) {
  const ArrayFolders folders(item, tree);
  std::mutex mutex;
  std::optional<std::pair<std::size_t, Error>> first;
  default_executor().for_each(tree.leaves.size(), [&](std::size_t i) {
    if (!is_array(tree.leaves[i])) return;
    const auto checked = try_call([&] { return folders.check(tree.leaves[i]), true; });
    if (checked) return;
    const std::scoped_lock lock(mutex);
    if (!first || i < first->first) first.emplace(i, checked.error());
  });
  if (first) throw Error(first->second);
}

// ---- the items ----

void check_strings(const Item& item, const Listing& listing, const TreeMetadata& tree) {
  const auto is_string = [](const LeafMetadata& leaf) { return leaf.value_type == "string"; };
  if (std::ranges::none_of(tree.leaves, is_string)) return;
  const auto is_json = [](const std::string& name) { return name.ends_with(".json"); };
  if (std::ranges::none_of(listing.files, is_json))
    missing(join(item.path, kStringsFile), "_METADATA has strings");
  check_json(item.folder, join(item.path, kStringsFile));
}

// The arrays of a tree that has no manifest: they need one, or folders.
void check_without_manifest(const Item& item, const Listing& listing, const TreeMetadata& tree) {
  if (std::ranges::none_of(tree.leaves, is_array)) return;
  if (tree.use_ocdbt.value_or(false))
    missing(join(item.path, kManifestFile), "_METADATA has arrays in a database");
  if (!tree.use_ocdbt && std::ranges::any_of(listing.folders, [](const auto& name) {
        return name.starts_with(kProcessPrefix);
      }))
    missing(join(item.path, kManifestFile), "there are databases of processes");
  check_folders(item, tree);
}

// A tree with `_METADATA`. Beside a manifest, which leads to the arrays, and without strings it
// only has to be whole: making the leaves of a large tree takes as long as opening it.
void check_recorded_tree(const Item& item, const Listing& listing) {
  const std::string file = join(item.path, kTreeMetadataFile);
  const std::string text = text_of(item.folder, file);
  const bool has_manifest = listing.has_file(kManifestFile);
  std::optional<TreeMetadata> tree;
  with_context([&] { return file; },
               [&] {
                 if (!has_manifest || text.find("\"string\"") != std::string::npos) {
                   tree = parse_tree_metadata(text);
                   return;
                 }
                 JsonScanner in(text);
                 (void)in.skip();
                 in.finish();
               });
  // The values of these leaves may be in the aggregate file.
  if (!tree || listing.has_file(kAggregateFile)) return;
  check_strings(item, listing, *tree);
  if (!has_manifest) check_without_manifest(item, listing, *tree);
}

void check_tree(const Item& item, const std::string* handler) {
  const Listing listing = list_directory(item.folder, item.path);
  if (listing.has_file(kTreeMetadataFile))
    check_recorded_tree(item, listing);
  else if (handler != nullptr && is_tree_handler(*handler) && !listing.has_file(kAggregateFile))
    missing(join(item.path, kTreeMetadataFile), *handler + " has saved a tree");
  if (!listing.has_file(kManifestFile)) return;
  const std::string why = ocdbt::find_short_file(files_of(item.folder->open_below(item.path)));
  if (!why.empty()) throw Error(Code::kDataLoss, why);
}

// Orbax's handlers write at least one file or folder, besides the marker.
void check_not_empty(const Item& item, const Listing& listing) {
  const auto is_content = [](const std::string& name) { return name != kCommitFile; };
  if (listing.folders.empty() && std::ranges::none_of(listing.files, is_content))
    throw Error(Code::kNotFound, item.path + ": the folder of item '" + item.name + "' is empty");
}

void check_json_files(const Item& item, const Listing& listing) {
  for (const std::string& name : listing.files)
    if (is_json_file(name, item.name)) check_json(item.folder, join(item.path, name));
}

// A random key has two folders: its array, and what says how to interpret it.
void check_random_key(const Item& item, const Listing& listing) {
  for (const std::string_view key : {kJaxRandomKeyFolder, kNumpyRandomKeyFolder}) {
    const std::string description = std::string(key) + "_metadata";
    if (!listing.has_folder(key) && !listing.has_folder(description)) continue;
    const std::string folder = join(item.path, key);
    if (!listing.has_folder(key)) missing(folder, "the folder '" + description + "' is there");
    const std::string file = join(join(item.path, description), kJsonItemFile);
    if (!item.folder->exists(file)) missing(file, "the folder '" + std::string(key) + "' is there");
    check_json(item.folder, file);
  }
}

// An item that is not a tree. Only its own handler knows what a foreign one has written.
void check_other(const Item& item, const std::string* handler) {
  const Listing listing = list_directory(item.folder, item.path);
  if (handler != nullptr && !is_foreign_handler(*handler)) {
    if (is_tree_handler(*handler)) return check_tree(item, handler);
    check_not_empty(item, listing);
    if (is_file_handler(*handler)) check_json_files(item, listing);
  }
  check_random_key(item, listing);
}

using Handlers = std::vector<std::pair<std::string, std::string>>;  // item name, handler

const std::string* recorded_handler(const Handlers& handlers, const std::string& item) {
  const auto it = std::ranges::find(handlers, item, &Handlers::value_type::first);
  return it == handlers.end() ? nullptr : &it->second;
}

void check_items(const Layout& layout, const Handlers& handlers) {
  const bool is_composite = layout.kind == LayoutKind::kComposite;
  for (const auto& [name, handler] : handlers) {
    const auto has_name = [&, &n = name](const Item& item) { return item.name == n; };
    if (name.empty() && is_composite && is_tree_handler(handler))
      missing(join(layout.path, kTreeMetadataFile), handler + " has saved a tree");
    if (!name.empty() && is_composite && std::ranges::none_of(layout.items, has_name))
      missing(join(layout.path, name), std::string(kCheckpointMetadataFile) + " has this item");
  }
  for (const Item& item : layout.items) {
    const std::string* handler = recorded_handler(handlers, item.name);
    if (item.kind == ItemKind::kOther || !item.note.empty()) {
      Item whole = item;  // the array of a random key lies in a folder of the item
      if (!item.note.empty()) whole.path = std::string(parent_of(item.path));
      check_other(whole, handler);
    }
    if (item.kind == ItemKind::kPytree) check_tree(item, item.note.empty() ? handler : nullptr);
  }
}

void check(const Layout& layout) {
  const std::string file = join(layout.path, kCheckpointMetadataFile);
  Handlers handlers;
  if (layout.folder->exists(file))
    handlers = read_checkpoint_metadata(*layout.folder, file).item_handlers;
  else if (layout.v1)
    missing(file, std::string(kV1Marker) + " marks a checkpoint of version 1");
  check_items(layout, handlers);
}

// Whether the code says that a file is absent, too short, or not what its name promises.
bool says_damage(Code code) {
  return code == Code::kDataLoss || code == Code::kNotFound || code == Code::kOutOfRange;
}

// The message with the paths of files in the checkpoint relative to it.
std::string without_path(std::string message, const std::string& path) {
  for (std::size_t at = message.find(path); at != std::string::npos; at = message.find(path, at))
    message.erase(at, path.size());
  return message;
}

}  // namespace

std::string find_missing(const Layout& layout) {
  if (layout.kind == LayoutKind::kZarr || layout.folder == nullptr) return "";
  const auto checked = try_call([&] { return check(layout), true; });
  if (checked || checked.error().code() == Code::kUnimplemented) return "";
  if (!says_damage(checked.error().code())) throw Error(checked.error());
  layout.folder->note_missing();
  layout.folder->check_not_replaced();
  return without_path(checked.error().message(), layout.path + "/");
}

}  // namespace cairn::inline v0::orbax
