// pytree_item.cc -- opens one pytree: the structure, arrays, strings and shardings, each from the
// place where the writing version of Orbax keeps it.
#include <cairn/orbax/read/pytree_item.h>

#include <cairn/base/json/json.h>
#include <cairn/io/file_image.h>
#include <cairn/kvstore/renamed.h>
#include <cairn/kvstore/union.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/read/custom_metadata.h>
#include <cairn/orbax/read/custom_strings.h>
#include <cairn/tree/msgpack/array_specs.h>
#include <cairn/tree/msgpack/msgpack.h>
#include <cairn/tree/name_table.h>
#include <cairn/tree/names.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <iterator>
#include <optional>
#include <span>

namespace cairn::inline v0::orbax {
namespace {

// The report names the file separately, so the reason omits it.
void note_broken(PytreeItem& out, const std::string& file, const Error& e) {
  const std::string& why = e.message();
  out.broken.push_back(
      {file, why.starts_with(file + ": ") ? why.substr(file.size() + 2) : why, e.code()});
}

// Runs f. An error that f throws is recorded as the reason why `file` cannot be used.
template <class F>
void try_file(PytreeItem& out, const std::string& file, F f) {
  try {
    f();
  } catch (const Error& e) {
    note_broken(out, file, e);
  }
}

std::optional<Buffer> read_if_there(const PytreeItem& item, const std::string& path) {
  if (!item.item.folder->exists(path)) return std::nullopt;
  return item.item.folder->read_text(path, kMaxMetadataFile);
}

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
    note_broken(out, join(out.item.path, kManifestFile), e);
  }
}

// ---- leaves ----

TensorInfo make_tensor(KeyPath path, std::string typestr, LeafKind kind) {
  TensorInfo tensor;
  tensor.kind = kind;
  tensor.name = param_name(path);
  tensor.path = std::move(path);
  tensor.typestr = std::move(typestr);
  return tensor;
}

void add_leaf(PytreeItem& out, TensorInfo tensor, LeafValue value = {}) {
  out.tensors.push_back(std::move(tensor));
  out.values.push_back(std::move(value));
}

// What `_METADATA` says of a leaf. Arrays are unknown until they are opened.
LeafKind kind_of(const LeafMetadata& leaf) {
  if (leaf.value_type == "string") return LeafKind::kString;
  if (leaf.value_type == "placeholder") return LeafKind::kPlaceholder;
  const bool empty = leaf.skip_deserialize || is_empty_node_type(leaf.value_type);
  return empty ? LeafKind::kEmpty : LeafKind::kUnknown;
}

std::vector<TensorInfo> make_recorded_tensors(std::vector<LeafMetadata> leaves) {
  std::vector<TensorInfo> tensors;
  tensors.reserve(leaves.size());
  for (auto& leaf : leaves) {
    const LeafKind kind = kind_of(leaf);
    tensors.push_back(make_tensor(std::move(leaf.path), std::move(leaf.value_type), kind));
    if (tensors.back().is_string()) tensors.back().dtype_name = "string";
  }
  return tensors;
}

// Reads `_METADATA`. Where there are very many leaves, another thread makes their tensors while
// this one parses the rest of the file.
void read_tree_metadata(PytreeItem& out, const std::string& file, std::size_t threads) {
  constexpr std::size_t kMany = 1000;
  const Buffer text = out.item.folder->read_text(file, kMaxMetadataFile);
  std::future<std::vector<TensorInfo>> tensors;
  out.metadata = parse_tree_metadata(as_text(text), [&](std::vector<LeafMetadata> leaves) {
    out.write_shapes.clear();
    for (auto& leaf : leaves) out.write_shapes.push_back(std::move(leaf.write_shape));
    const auto policy = threads == 1 || leaves.size() < kMany
                            ? std::launch::deferred
                            : std::launch::async | std::launch::deferred;
    tensors = std::async(policy, make_recorded_tensors, std::move(leaves));
  });
  out.tensors = tensors.get();
  out.values.resize(out.tensors.size());
  out.recorded = out.tensors.size();
}

std::string text_of(const MsgpackLeaf& leaf) {
  std::string text;
  for (const auto piece : leaf.pieces) text += as_text(piece);
  return text;
}

// Adds a leaf whose value is in the aggregate file.
void add_inside_leaf(PytreeItem& out, const MsgpackLeaf& leaf,
                     const std::shared_ptr<const void>& file) {
  TensorInfo tensor = make_tensor(leaf.path, std::string(kind_name(leaf.kind)), LeafKind::kEmpty);
  LeafValue value;
  value.is_aggregated = true;
  tensor.nbytes = leaf.nbytes();
  if (leaf.kind == MsgpackKind::kString) {
    tensor.kind = LeafKind::kString;
    tensor.dtype_name = "string";
    value.text = std::make_shared<const std::string>(text_of(leaf));
  } else if (!leaf.dtype_name.empty()) {
    tensor.kind = LeafKind::kArray;
    tensor.dtype = leaf.dtype;
    tensor.dtype_name = leaf.dtype_name;
    tensor.element_size = leaf.element_size;
    tensor.shape = leaf.shape;
    value.inside = std::make_shared<const InsideValue>(InsideValue{file, leaf.pieces});
    if (leaf.pieces.empty() && tensor.nbytes > 0) {  // a native msgpack number
      const auto number = std::make_shared<const Bytes>(
          leaf.value.begin(), leaf.value.begin() + static_cast<std::ptrdiff_t>(tensor.nbytes));
      value.inside = std::make_shared<const InsideValue>(InsideValue{number, {*number}});
    }
  }
  add_leaf(out, std::move(tensor), std::move(value));
}

bool is_stored_elsewhere(const MsgpackLeaf& leaf) {
  if (leaf.kind != MsgpackKind::kString) return false;
  const std::string text = text_of(leaf);
  return text.starts_with(kArrayPlaceholder) || text.starts_with("AGGREGATED://");
}

void note_array_folders(PytreeItem& out, std::vector<StoredElsewhere> arrays) {
  for (StoredElsewhere& array : arrays) {
    const auto [known, added] = out.array_folders.emplace(param_name(array.path), array.folder);
    if (!added && known->second != array.folder)
      throw Error(Code::kUnimplemented, leaf_text(array.path) + ": the name '" + known->first +
                                            "' belongs to two arrays, in '" + known->second +
                                            "' and '" + array.folder +
                                            "'; they cannot be told apart");
  }
}

// Returns the positions of the tensors that have the names of the leaves.
std::vector<std::optional<std::size_t>> recorded_positions(const PytreeItem& item,
                                                           std::span<const MsgpackLeaf> leaves) {
  const NameTable names(item.tensors);
  std::vector<std::optional<std::size_t>> positions;
  positions.reserve(leaves.size());
  for (const MsgpackLeaf& leaf : leaves) positions.push_back(names.find(param_name(leaf.path)));
  return positions;
}

// Values in the aggregate file take precedence over stored arrays. Its placeholders only state that
// an array exists. If `_METADATA` exists, an aggregate file with only placeholders is ignored.
void add_aggregate_leaves(PytreeItem& out, const File& file) {
  const auto image = std::make_shared<FileImage>(file);
  image->load_all();
  const bool recorded_tree = out.structure == Structure::kTreeMetadata;
  const MsgpackInput input{.load = {}, .stored = file.allocated(), .integer_keys = false};
  Tree parsed = parse_msgpack(image->bytes(), input);
  std::vector<StoredElsewhere> beside = take_array_specs(parsed);
  if (!recorded_tree) note_array_folders(out, std::move(beside));
  const std::vector<MsgpackLeaf> leaves =
      msgpack_leaves(parsed, std::min<std::uint64_t>(image->bytes().size(), *input.stored));
  out.has_aggregated_values = std::any_of(leaves.begin(), leaves.end(), [](const auto& leaf) {
    return !is_stored_elsewhere(leaf) && !is_empty_node_type(kind_name(leaf.kind));
  });
  if (recorded_tree && !out.has_aggregated_values) return;
  const auto recorded = recorded_positions(out, leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const MsgpackLeaf& leaf = leaves[i];
    const std::optional<std::size_t> known = recorded[i];
    if (is_stored_elsewhere(leaf)) {
      if (known) continue;
      // The saved type is not recorded; arrays can always be read as host arrays.
      add_leaf(out, make_tensor(leaf.path, "np.ndarray", LeafKind::kUnknown));
      continue;
    }
    add_inside_leaf(out, leaf, image);
    if (!known) continue;
    // this path distinguishes lists from dicts
    out.tensors.back().path = out.tensors[*known].path;
    std::swap(out.tensors[*known], out.tensors.back());
    std::swap(out.values[*known], out.values.back());
    out.tensors.pop_back();
    out.values.pop_back();
  }
}

KeyPath split_name(const std::string& name, char separator) {
  KeyPath path;
  if (name.empty()) return path;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find(separator, start), name.size());
    path.push_back({name.substr(start, end - start), KeyType::kDict});
    start = end + 1;
  }
  return path;
}

// Returns true if the names cannot form a tree: "a" is a leaf and "a.b" lies below it.
bool any_inside_another(const std::vector<std::string>& names, char separator) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    for (std::size_t at = name.find(separator); at != std::string::npos;
         at = name.find(separator, at + 1))
      if (std::binary_search(names.begin(), names.end(), name.substr(0, at))) return true;
    return !name.empty() && std::binary_search(names.begin(), names.end(), "");
  });
}

// Zarr groups nest with '/'; Orbax joins the keys of a tree with '.'.
char separator_of(const PytreeItem& out, const std::vector<std::string>& names) {
  const bool nested = std::any_of(names.begin(), names.end(), [](const auto& name) {
    return name.find('/') != std::string::npos;
  });
  const bool grouped = std::any_of(out.keys.begin(), out.keys.end(), [](const auto& entry) {
    return entry.key == ".zgroup" || entry.key == "zarr.json";
  });
  return out.storage == ArrayStorage::kFolders && (nested || grouped) ? '/' : '.';
}

// If no structure is recorded, splits the arrays' names at the separator with which the writer
// joined them.
void add_named_leaves(PytreeItem& out, const std::string& metadata_key) {
  auto names = handlers::find_array_names(out.arrays, out.keys);
  if (!metadata_key.empty()) {
    std::vector<std::string> all;
    const auto more = find_custom_names(out, metadata_key);
    std::set_union(names.begin(), names.end(), more.begin(), more.end(), std::back_inserter(all));
    names = std::move(all);
  }
  const char separator = separator_of(out, names);
  const bool flat = any_inside_another(names, separator);
  for (const auto& name : names) {
    TensorInfo tensor =
        make_tensor(flat ? KeyPath{{name, KeyType::kDict}} : split_name(name, separator),
                    "np.ndarray", LeafKind::kUnknown);
    tensor.name = name;
    add_leaf(out, std::move(tensor));
  }
}

// ---- files beside the arrays ----

void attach_shardings(PytreeItem& out, const NameTable& names) {
  const std::string file = join(out.item.path, kShardingFile);
  try_file(out, file, [&] {
    const auto text = read_if_there(out, file);
    if (!text) return;
    out.has_shardings = true;
    for (auto& [name, sharding] : parse_shardings(as_text(*text)))
      if (const auto i = names.find(name); i && out.tensors[*i].is_array())
        out.tensors[*i].sharding = std::move(sharding);
    for (const auto& [later, first] : names.repeated())
      if (out.tensors[later].is_array()) out.tensors[later].sharding = out.tensors[first].sharding;
  });
}

void attach_random_keys(PytreeItem& out) {
  const std::string folder = join(out.item.path, kArrayMetadataFolder);
  out.array_metadata_files = list_directory(out.item.folder, folder).files;
  for (const auto& name : out.array_metadata_files) {
    try {
      const Buffer text = out.item.folder->read_text(join(folder, name), kMaxMetadataFile);
      // Parse only if the file can contain a typed PRNG key.
      if (as_text(text).find("random_key_impl") == std::string_view::npos) continue;
      for (auto& array : parse_array_metadatas(as_text(text)))
        if (!array.random_key_impl.empty())
          out.random_keys.emplace(std::move(array.name), std::move(array.random_key_impl));
    } catch (const Error& e) {
      out.unread_array_metadata.emplace_back(name, e.message());
    }
  }
}

// Whether a file of strings with another name than _strings.json may be used. Orbax's restore uses
// only the file that the type handler names.
enum class StringsFile : std::uint8_t { kUsual, kAny };

void attach_strings(PytreeItem& out, StringsFile allowed) {
  const auto is_missing = [&](std::size_t i) {
    const bool in_array = i < out.stored.size() && out.stored[i];
    return out.tensors[i].typestr == "string" && !out.values[i].text && !in_array;
  };
  std::vector<std::size_t> wanted;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < out.tensors.size(); ++i) {
    if (!is_missing(i)) continue;
    wanted.push_back(i);
    names.push_back(out.tensors[i].name);
  }
  if (wanted.empty()) return;
  const std::string file = join(out.item.path, kStringsFile);
  Strings strings;
  std::string error = "it is not in " + std::string(kStringsFile);
  try_file(out, file, [&] {
    if (const auto text = read_if_there(out, file)) {
      strings = parse_strings(as_text(*text));
      return;
    }
    error = std::string(kStringsFile) + " is missing";
    if (allowed == StringsFile::kUsual) return;
    auto found = try_call([&] { return find_custom_strings(out, names); });
    if (found)
      strings = std::move(found).value();
    else
      error = found.error().message();
  });
  Code code = Code::kDataLoss;
  if (!out.broken.empty() && out.broken.back().file == file) {
    error = file + ": " + out.broken.back().why;
    code = out.broken.back().code;
  }
  for (const auto i : wanted) {
    const auto it = strings.find(out.tensors[i].name);
    if (it == strings.end()) {
      out.tensors[i].error = error;
      out.tensors[i].error_code = code;
      continue;
    }
    out.values[i].text = std::make_shared<const std::string>(it->second);
    out.tensors[i].nbytes = it->second.size();
  }
}

// Attaches the data of the files beside the arrays to the leaves.
void attach_files(PytreeItem& out, const NameTable& names, StringsFile strings) {
  attach_shardings(out, names);
  attach_strings(out, strings);
  attach_random_keys(out);
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
PytreeItem open_structure(const Item& item, LayoutKind kind, const std::string& aggregate_file,
                          const OpenOptions& options, Keys keys) {
  PytreeItem out;
  out.item = item;
  out.version = options.version;
  out.item.folder =
      item.folder != nullptr ? item.folder->open_below(item.path) : FolderHandle::open(item.path);
  out.files = open_file_store(out.item.folder);
  const Listing listing = list_directory(out.item.folder, item.path);
  OpenedAhead ahead = keys == Keys::kListed ? open_ahead(out, listing, options) : OpenedAhead();
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
  open_store(out, listing, options, ahead);
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
  return array;
}

PytreeItem open_pytree_structure(const Item& item, const std::string& aggregate_file,
                                 const OpenOptions& options) {
  PytreeItem out =
      open_structure(item, LayoutKind::kDirect, aggregate_file, options, Keys::kUnused);
  attach_files(out, NameTable(out.tensors), StringsFile::kUsual);
  finish_opening(out);
  return out;
}

PytreeItem open_pytree_item(const Item& item, LayoutKind kind, const OpenOptions& options) {
  PytreeItem out = open_structure(item, kind, std::string(kAggregateFile), options, Keys::kListed);
  if (out.has_arrays && out.arrays != nullptr && out.keys.empty()) {
    try_file(out, out.arrays->describe(""), [&] { out.keys = out.arrays->list(""); });
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
