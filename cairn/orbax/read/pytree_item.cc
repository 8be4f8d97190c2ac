// pytree_item.cc -- opens one pytree: the structure, the store of the arrays, and the files beside
// them, each from the place where the writing version of Orbax keeps it.
#include <cairn/orbax/read/pytree_item.h>

#include <cairn/array/box.h>
#include <cairn/base/byte_order.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/kvstore/renamed.h>
#include <cairn/kvstore/union.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/read/custom_metadata.h>
#include <cairn/orbax/read/files_beside.h>
#include <cairn/orbax/read/leaves.h>
#include <cairn/tree/name_table.h>
#include <cairn/tree/names.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>

namespace cairn::inline v0::orbax {

// The report names the file separately, so the reason omits it.
void PytreeItem::note_broken(const std::string& file, const Error& error) {
  const std::string& why = error.message();
  broken.push_back(
      {file, why.starts_with(file + ": ") ? why.substr(file.size() + 2) : why, error.code()});
}

namespace {

// ---- which store the arrays are in ----

// A database and its keys.
struct OpenedDatabase {
  StorePtr store;
  std::vector<ListEntry> keys;
};
using OpenedAhead = std::future<std::optional<OpenedDatabase>>;

// Opens and lists the database while the caller parses `_METADATA`, which takes as long. Without a
// result, the caller opens it again and gets the error.
OpenedAhead open_ahead(const PytreeItem& out, const Listing& listing, const OpenOptions& options) {
  if (!listing.has_file(kManifestFile) || options.resources.threads == 1) return {};
  return std::async(std::launch::async | std::launch::deferred,
                    [files = out.files, version = options.version,
                     threads = options.resources.threads]() -> std::optional<OpenedDatabase> {
                      auto opened = try_call([&] {
                        OpenedDatabase database{open_ocdbt(files, version, threads), {}};
                        database.keys = database.store->list("");
                        return database;
                      });
                      if (!opened) return std::nullopt;
                      return std::move(opened).value();
                    });
}

void open_database(PytreeItem& out, const OpenOptions& options, OpenedAhead& ahead) {
  const std::size_t threads = options.resources.threads;
  if (!out.item.folder->exists(join(out.item.path, kManifestFile))) {
    if (options.allow_uncommitted && !out.process_folders.empty()) {
      out.storage = ArrayStorage::kUnmerged;
      std::vector<StorePtr> parts;
      for (const auto& folder : out.process_folders)
        parts.push_back(open_ocdbt(prefix_store(out.files, folder + "/"), {}, threads));
      out.arrays = union_store(std::move(parts));
      return;
    }
    throw Error(Code::kNotFound, "the database's manifest is missing");
  }
  if (auto opened = ahead.valid() ? ahead.get() : std::nullopt) {
    out.arrays = std::move(opened->store);
    out.keys = std::move(opened->keys);
    return;
  }
  out.arrays = open_ocdbt(out.files, options.version, threads);
}

bool uses_ocdbt(const PytreeItem& out, const Listing& listing) {
  if (out.metadata.use_ocdbt) return *out.metadata.use_ocdbt;
  return listing.has_file(kManifestFile) || !out.process_folders.empty();
}

void open_store(PytreeItem& out, const Listing& listing, const OpenOptions& options,
                OpenedAhead& ahead) {
  for (const auto& name : listing.folders)
    if (name.starts_with(kProcessPrefix)) out.process_folders.push_back(name);
  if (!uses_ocdbt(out, listing)) {
    out.arrays =
        out.array_folders.empty() ? out.files : renamed_store(out.files, out.array_folders);
    return;
  }
  out.storage = ArrayStorage::kOcdbt;
  // A tree of strings and empty nodes has no database. A tree whose leaves all have custom handlers
  // needs none either.
  const bool needed = std::any_of(out.tensors.begin(), out.tensors.end(), [](const auto& tensor) {
    return tensor.kind == LeafKind::kUnknown && !is_custom_kind(tensor.typestr);
  });
  const bool expected = needed || out.structure == Structure::kNames ||
                        (out.has_arrays && !out.process_folders.empty());
  if (!expected && !listing.has_file(kManifestFile)) return;
  try {
    open_database(out, options, ahead);
  } catch (const Error& e) {
    // A version that does not exist is an invalid request and not damage.
    if (is_version(options.version) &&
        (e.code() == Code::kNotFound || e.code() == Code::kInvalidArgument))
      throw;
    out.note_broken(join(out.item.path, kManifestFile), e);
  }
}

void attach_arrays(PytreeItem& out, const NameTable& names, const OpenOptions& options) {
  out.stored.resize(out.tensors.size());
  if (out.arrays == nullptr && out.has_arrays) {
    const BrokenFile why = out.broken.empty()
                               ? BrokenFile{"", "the arrays' database is missing", Code::kDataLoss}
                               : out.broken.back();
    for (auto& tensor : out.tensors) {
      if (tensor.kind != LeafKind::kUnknown) continue;
      tensor.error = why.file.empty() ? why.why : why.file + ": " + why.why;
      tensor.error_code = why.code;
    }
    return;
  }
  if (!out.has_arrays) return;
  const Workers workers(options.resources.threads);
  out.stored =
      handlers::open_arrays(out.arrays, {out.zarr_format}, out.tensors, &workers.executor());
  open_custom_arrays(out, names, options.metadata_key);
  handlers::fill_stored_sizes(out.keys, names, out.stored, out.tensors, &workers.executor());
}

// A custom handler may store a leaf anywhere. If it stored an array under the leaf's name, that
// array is read like any other.
void excuse_custom_leaves(PytreeItem& out) {
  for (std::size_t i = 0; i < out.tensors.size(); ++i) {
    TensorInfo& tensor = out.tensors[i];
    if (out.structure != Structure::kTreeMetadata || !is_custom_kind(tensor.typestr) ||
        out.stored[i])
      continue;
    if (tensor.kind != LeafKind::kUnknown || tensor.error.empty()) continue;
    if (out.arrays != nullptr && !handlers::is_missing(tensor)) continue;
    tensor.error = "a custom leaf: its type '" + tensor.typestr +
                   "' belongs to a type handler that Cairn does not have";
    tensor.error_code = Code::kUnimplemented;
    tensor.kind = LeafKind::kCustom;
  }
}

bool wants_arrays(const PytreeItem& out) {
  return out.structure == Structure::kNames ||
         std::any_of(out.tensors.begin(), out.tensors.end(),
                     [](const auto& tensor) { return tensor.kind == LeafKind::kUnknown; });
}

// Returns true if the item's folder contains files that only Orbax writes.
bool is_of_orbax(const Listing& listing) {
  for (const auto name : {kCommitFile, kCheckpointMetadataFile, kShardingFile, kStringsFile})
    if (listing.has_file(name)) return true;
  return std::any_of(listing.folders.begin(), listing.folders.end(), [](const auto& name) {
    return name == kArrayMetadataFolder || name.starts_with(kProcessPrefix);
  });
}

// The handlers of a single array, which always use one name, write no file that lists the leaves.
bool is_single_array(const PytreeItem& out) {
  return out.storage == ArrayStorage::kFolders && out.tensors.size() == 1 &&
         out.tensors.front().name == "checkpoint";
}

// Whether the caller of open_structure needs the keys of the arrays' store.
enum class Keys : std::uint8_t { kUnused, kListed };

// Opens the files beside the arrays and the store of the arrays. May list its keys already.
PytreeItem open_structure(const Item& item, LayoutKind kind, const OpenOptions& options, Keys keys,
                          const StorePtr& arrays = nullptr) {
  const std::string& aggregate_file = options.aggregate_filename;
  PytreeItem out;
  out.item = item;
  out.version = options.version;
  out.item.folder = item.folder != nullptr ? item.folder->open_below(item.path)
                                           : open_checkpoint_folder(item.path, options.store);
  out.files = files_of(out.item.folder);
  const Listing listing = list_directory(out.item.folder, item.path);
  OpenedAhead ahead = keys == Keys::kListed && arrays == nullptr ? open_ahead(out, listing, options)
                                                                 : OpenedAhead();
  const std::string metadata_file = join(item.path, kTreeMetadataFile);
  if (listing.has_file(kTreeMetadataFile) && kind != LayoutKind::kZarr) {
    with_context([&] { return metadata_file; },
                 [&] { read_tree_metadata(out, metadata_file, options.resources.threads); });
    out.structure = Structure::kTreeMetadata;
    out.zarr_format = out.metadata.use_zarr3 ? 3 : 2;
    if (out.metadata.store_array_data_equal_to_fill_value) out.missing = zarr::MissingChunk::kError;
  }
  if (listing.has_file(aggregate_file) && kind != LayoutKind::kZarr) {
    const std::string file = join(item.path, aggregate_file);
    if (out.structure != Structure::kTreeMetadata) out.structure = Structure::kAggregate;
    with_context([&] { return file; },
                 [&] { add_aggregate_leaves(out, out.item.folder->open_file(file)); });
  }
  // Bare arrays and databases never have such a file.
  out.lacks_structure = out.structure == Structure::kNames && is_of_orbax(listing);
  out.has_arrays = wants_arrays(out);
  if (arrays == nullptr) {
    open_store(out, listing, options, ahead);
  } else {
    out.storage = ArrayStorage::kOcdbt;
    out.arrays = arrays;
  }
  if (!out.has_arrays) out.keys.clear();
  return out;
}

}  // namespace

bool is_custom_kind(std::string_view kind) {
  for (const std::string_view known :
       {"jax.Array", "np.ndarray", "scalar", "string", "placeholder"})
    if (kind == known) return false;
  return !is_empty_node_type(kind);
}

void check_not_replaced(const PytreeItem& item) {
  item.item.folder->note_missing();
  item.item.folder->check_not_replaced();
}

namespace {

// Called at the end of opening. Opening also tries files that this layout does not have; their
// absence does not count as missing.
void finish_opening(const PytreeItem& item) {
  check_not_replaced(item);
  item.item.folder->forget_missing();
}

}  // namespace

Array inside_array(const InsideValue& value, const TensorInfo& leaf) {
  Array array = Array::allocate(leaf.dtype, leaf.element_size, leaf.shape);
  std::byte* to = array.mutable_view().data;
  for (const ByteView piece : value.pieces) {
    if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  if (kBigEndianMachine && value.is_little_endian && leaf.dtype != DType::kOpaque)
    copy_elements_swapped(cairn::as_const(array.mutable_view()), array.mutable_view());
  return array;
}

PytreeItem open_pytree_structure(const Item& item, const OpenOptions& options) {
  PytreeItem out = open_structure(item, LayoutKind::kDirect, options, Keys::kUnused);
  attach_files(out, NameTable(out.tensors), StringsFile::kUsual);
  finish_opening(out);
  return out;
}

PytreeItem open_pytree_item(const Item& item, LayoutKind kind, const OpenOptions& options,
                            const StorePtr& arrays) {
  PytreeItem out = open_structure(item, kind, options, Keys::kListed, arrays);
  if (out.has_arrays && out.arrays != nullptr && out.keys.empty()) {
    out.try_file(out.arrays->describe(""), [&] { out.keys = out.arrays->list(""); });
  }
  if (out.structure == Structure::kNames) {
    if (out.arrays == nullptr || (out.keys.empty() && !out.broken.empty()))
      throw Error(out.broken.back().code, out.broken.back().file + ": " + out.broken.back().why);
    add_named_leaves(out, options.metadata_key);
    out.lacks_structure = out.lacks_structure && !is_single_array(out);
  }
  const NameTable names(out.tensors);
  attach_arrays(out, names, options);
  excuse_custom_leaves(out);
  attach_files(out, names, StringsFile::kAny);
  finish_opening(out);
  return out;
}

}  // namespace cairn::inline v0::orbax
