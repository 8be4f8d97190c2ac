// verify.cc -- reads a whole checkpoint and reports everything that is wrong with it.
#include <cairn/orbax/read/verify.h>

#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/ocdbt/read/check.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree/metadata/key_faults.h>
#include <cairn/tree/name_table.h>
#include <cairn/zarr/metadata/refused_metadata.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace cairn::inline v0::orbax {
namespace {

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Returns true if an array of the shape `whole` may have parts of the shape `part`.
bool is_part_of(const Shape& part, const Shape& whole) {
  return std::equal(
      part.begin(), part.end(), whole.begin(), whole.end(),
      [](std::int64_t a, std::int64_t b) { return a <= std::max<std::int64_t>(b, 1); });
}

// An implementation of PRNG keys that JAX itself has, and the last extent of its keys' data. A
// program may add others.
struct PrngKeyType {
  std::string_view name;
  std::int64_t extent;
};
constexpr PrngKeyType kKeyTypes[] = {{"threefry2x32", 2}, {"rbg", 4},        {"unsafe_rbg", 4},
                                     {"threefry4x32", 4}, {"philox2x32", 1}, {"philox4x32", 2}};

// The verification of one item.
class ItemCheck {
 public:
  ItemCheck(const PytreeItem& item, const ItemLeaves& leaves, VerifyReport& report)
      : item_(item),
        leaves_(leaves),
        report_(report),
        names_(leaves.tensors),
        first_finding_(report.findings.size()) {}

  void run() {
    for (const auto& [key, names] : item_.custom_keys)
      for (const auto& name : names) files_.insert(name.empty() ? key : join(name, key));
    if (!item_.strings_file.empty()) files_.insert(item_.strings_file);
    check_structure();
    check_keys();
    check_rich_types();
    check_leaves();
    check_array_members();
    check_databases();
    check_unnamed_arrays();
    check_shardings();
    check_strings();
    check_array_metadatas();
    check_device_arrays();
    check_broken();
    check_orphans();
  }

 private:
  void add(Severity severity, const std::string& tensor, const std::string& file,
           const std::string& message) {
    Finding finding;
    finding.severity = severity;
    finding.tensor = tensor;
    finding.file = file;
    finding.message = message;
    report_.findings.push_back(std::move(finding));
  }
  void damage(const std::string& tensor, const std::string& file, const std::string& message) {
    add(Severity::kDamage, tensor, file, message);
  }
  void note(const std::string& tensor, const std::string& file, const std::string& message) {
    add(Severity::kNote, tensor, file, message);
  }
  // Reports an error that prevented a check.
  void failed(const std::string& tensor, const std::string& file, const Error& error) {
    add(severity_of(error.code()), tensor, file, error.message());
  }

  [[nodiscard]] std::string path(std::string_view name) const {
    return join(item_.item.path, name);
  }
  [[nodiscard]] std::string label(std::size_t i) const { return leaves_.tensors[i].full_name(); }

  [[nodiscard]] const FolderHandle& folder() const { return *item_.item.folder; }
  [[nodiscard]] std::string text_of_file(const std::string& file) const {
    return std::string(as_text(folder().read_text(file, kMaxMetadataFile)));
  }

  // Returns the text of a metadata file, if it exists and can be read.
  std::optional<std::string> read_if_there(const std::string& file) {
    if (!folder().exists(file)) return std::nullopt;
    auto text = try_call([&] { return text_of_file(file); });
    if (!text) {
      failed("", file, text.error());
      return std::nullopt;
    }
    report_.bytes += text.value().size();
    return std::move(text).value();
  }

  void check_structure();
  void check_keys();
  void check_rich_types();
  void check_leaves();
  void check_type(std::size_t i);
  void check_format(std::size_t i);
  void check_array_members();
  void check_databases();
  void check_broken();
  [[nodiscard]] bool is_lost(std::size_t i) const;
  void check_process_database(const std::string& name);
  void check_unnamed_arrays();
  [[nodiscard]] bool is_named(std::string_view key) const;
  [[nodiscard]] bool is_empty_array(std::size_t i) const;  // a stored array without elements
  void check_shardings();
  void check_sharding_text(const std::string& name, const std::string& file,
                           const std::string& text);
  void check_strings();
  void check_array_metadatas();
  void check_array_metadata(const StoredArrayMetadata& stored, const std::string& file);
  void check_key_type(std::size_t leaf, const std::string& type, const std::string& file);
  void check_device_arrays();
  void check_write_shape(std::size_t i);
  [[nodiscard]] bool is_custom(std::size_t i) const;
  void check_orphans();
  [[nodiscard]] bool belongs(std::string_view key) const;

  const PytreeItem& item_;
  const ItemLeaves& leaves_;
  VerifyReport& report_;
  NameTable names_;
  std::size_t first_finding_;               // the position of this item's first finding
  std::map<std::string, Shape> described_;  // write shapes in array_metadatas, by name
  std::size_t metadata_files_ = 0;          // in array_metadatas
  bool has_all_array_metadatas_ = false;    // all of these files and their folder could be read
  bool has_shardings_ = false;              // shardings exist and could be read
  std::set<std::string> sharded_;           // the names that have one
  // The files below the item's folder that are part of the databases or have a known name.
  std::set<std::string> files_;
};

// Orbax rejects an item without the file that lists its leaves.
void ItemCheck::check_structure() {
  if (!item_.lacks_structure) return;
  const std::string file = path(kTreeMetadataFile);
  const auto known = [&](const Finding& finding) { return finding.file == file; };
  // verify_recorded_tree has already reported it.
  if (std::any_of(report_.findings.begin(), report_.findings.end(), known)) return;
  damage("", file, "is missing, so the leaves of the tree are unknown");
}

// `_METADATA` has the keys of each leaf twice. If they differ, one of them is damaged, and the leaf
// may be restored under the name of another. Orbax refuses lists with gaps, and nodes with both
// kinds of keys.
void ItemCheck::check_keys() {
  if (item_.structure != Structure::kTreeMetadata) return;
  const std::string file = path(kTreeMetadataFile);
  const auto misnamed = try_call([&] { return find_misnamed_leaves(text_of_file(file)); });
  if (!misnamed) return failed("", file, misnamed.error());
  for (const MisnamedLeaf& leaf : misnamed.value())
    damage(param_name(leaf.path), file,
           "the entry " + leaf.name + " has the keys " +
               (leaf.path.empty() ? "of the root" : path_text(leaf.path)) +
               "; its name must be the tuple of its keys");
  std::vector<const KeyPath*> paths;
  for (std::size_t i = 0; i < item_.recorded; ++i) paths.push_back(&leaves_.tensors[i].path);
  for (const KeyFault& fault : find_key_faults(paths))
    damage(label(fault.leaf), file, fault.message);
  if (item_.recorded == 0) damage("", file, "lists no leaf; Orbax refuses a tree without leaves");
}

// Loading a tree with its tuples, its named tuples and its keys needs the record of them.
void ItemCheck::check_rich_types() {
  const auto keys = try_call([&] { return recorded_key_types(item_, leaves_.tensors); });
  if (!keys) failed("", path(kTreeMetadataFile), keys.error());
  if (item_.metadata.rich_types.empty()) return;
  const auto rich = try_call(
      [&] { return rich_tree(item_, leaves_.tensors, [](std::size_t) { return Tree(); }); });
  if (!rich) failed("", path(kTreeMetadataFile), rich.error());
}

// Returns true if a type handler that Cairn does not have stores the leaf.
bool ItemCheck::is_custom(std::size_t i) const {
  return item_.structure == Structure::kTreeMetadata && is_custom_kind(leaves_.tensors[i].typestr);
}

void ItemCheck::check_leaves() {
  for (std::size_t i = 0; i < leaves_.tensors.size(); ++i) {
    const TensorInfo& tensor = leaves_.tensors[i];
    // Stored arrays are counted when their chunks are verified.
    const bool stored_array = leaves_.stored[i].has_value();
    if (!stored_array && (tensor.is_array() || tensor.is_string() || tensor.is_custom()))
      ++report_.tensors;
    if (!tensor.error.empty() && !stored_array && !is_lost(i))
      add(severity_of(tensor.error_code), label(i), "", tensor.error);
    check_type(i);
    if (stored_array) check_format(i);
    if (leaves_.values[i].inside) {
      report_.bytes += tensor.nbytes;
      report_.unprotected.push_back(label(i));
    }
  }
}

// Orbax restores a leaf by the type that `_METADATA` records. A leaf with skip_deserialize is an
// empty node, or its value is in the aggregate file.
void ItemCheck::check_type(std::size_t i) {
  const TensorInfo& tensor = leaves_.tensors[i];
  if (i >= item_.recorded || leaves_.values[i].is_aggregated) return;
  const std::string file = path(kTreeMetadataFile);
  const bool is_skipped = tensor.kind == LeafKind::kEmpty || item_.skipped[i];
  if (is_skipped && !is_empty_node_type(tensor.typestr) && !is_custom(i))
    damage(label(i), file,
           "records that nothing is stored for this leaf, though its type is '" + tensor.typestr +
               "'");
  else if (leaves_.stored[i] && is_custom(i))
    add(Severity::kNotChecked, label(i), file,
        "only the array under this leaf's name was checked: its type '" + tensor.typestr +
            "' belongs to a type handler that Cairn does not have");
}

// Orbax reads only array metadata of the Zarr version that `_METADATA` states.
void ItemCheck::check_format(std::size_t i) {
  const int format = leaves_.stored[i]->metadata().zarr_format;
  if (item_.structure != Structure::kTreeMetadata || format == item_.zarr_format) return;
  damage(label(i), path(kTreeMetadataFile),
         "records that arrays are stored as Zarr v" + std::to_string(item_.zarr_format) +
             "; this one is stored as Zarr v" + std::to_string(format));
}

// Cairn reads some metadata of arrays that the other readers refuse. Many arrays have the same.
void ItemCheck::check_array_members() {
  using zarr::OtherReaders;
  const bool is_zarr = item_.structure == Structure::kNames;
  const auto readers =
      is_zarr ? OtherReaders::kTensorStoreOrZarrPython : OtherReaders::kTensorStore;
  const std::string_view who =
      is_zarr ? "TensorStore and zarr-python refuse the array: " : "Orbax refuses the array: ";
  std::unordered_map<std::string, std::optional<std::string>> known;  // by text
  for (std::size_t i = 0; i < leaves_.stored.size(); ++i) {
    if (!leaves_.stored[i]) continue;
    const zarr::ZarrArray& array = *leaves_.stored[i];
    const int format = array.metadata().zarr_format;
    const std::string key = zarr::ZarrArray::metadata_key(array.name(), format);
    const auto found = try_call([&]() -> std::optional<std::string> {
      const auto text = array.store()->read_at_most(key, zarr::kMaxMetadataBytes);
      if (!text) return std::nullopt;  // removed since the array was opened
      const auto [at, is_new] = known.try_emplace(std::string(as_text(*text)));
      if (is_new) at->second = zarr::find_refused_metadata(at->first, format, readers);
      return at->second;
    });
    if (!found)
      failed(label(i), "", found.error());
    else if (found.value())
      damage(label(i), array.store()->describe(key), std::string(who) + *found.value());
  }
}

// Returns true if the array cannot be read because its whole database cannot be read. That is one
// finding and not one per array.
bool ItemCheck::is_lost(std::size_t i) const {
  return item_.arrays == nullptr && item_.has_arrays &&
         leaves_.tensors[i].kind == LeafKind::kUnknown && !is_custom(i);
}

void ItemCheck::check_databases() {
  if (item_.storage == ArrayStorage::kOcdbt && folder().exists(path(kManifestFile)))
    ocdbt::check_database(item_.files, report_, files_);
  if (item_.storage != ArrayStorage::kFolders)
    for (const auto& name : item_.process_folders) check_process_database(name);
}

// Reports the files that could not be used on opening, unless another check has already reported
// them.
void ItemCheck::check_broken() {
  std::size_t lost = 0;
  for (std::size_t i = 0; i < leaves_.tensors.size(); ++i) lost += is_lost(i) ? 1 : 0;
  for (const BrokenFile& broken : item_.broken) {
    const bool is_database = lost > 0 && broken.file == path(kManifestFile);
    const std::string so = is_database ? "; so " + counted(lost, "array") + " cannot be read" : "";
    const auto begin = report_.findings.begin() + static_cast<std::ptrdiff_t>(first_finding_);
    const auto found = std::find_if(begin, report_.findings.end(), [&](const Finding& finding) {
      return finding.severity != Severity::kNote && !finding.file.empty() &&
             (finding.file == broken.file || broken.why.find(finding.file) != std::string::npos);
    });
    if (found == report_.findings.end())
      add(severity_of(broken.code), "", broken.file, broken.why + so);
    else
      found->message += so;
  }
}

// The merged database contains a copy of these databases' entries and refers to the values in their
// data files. Nothing else in them is read again.
void ItemCheck::check_process_database(const std::string& name) {
  if (!folder().exists(join(path(name), kManifestFile))) {
    if (item_.storage == ArrayStorage::kUnmerged)
      damage("", join(path(name), kManifestFile), "the database's manifest is missing");
    return;
  }
  std::set<std::string> files;
  VerifyReport found;
  ocdbt::check_database(files_of(folder().open_below(path(name))), found, files);
  report_.bytes += found.bytes;
  for (Finding& finding : found.findings) {
    if (item_.storage == ArrayStorage::kOcdbt) {
      finding.severity = Severity::kNote;
      finding.message += " (the merged database does not need it)";
    }
    report_.findings.push_back(std::move(finding));
  }
  for (const auto& file : files) files_.insert(join(name, file));
}

// Returns true if the key may lie below the name of some leaf. Names may contain '/', so every
// prefix of the key is tried.
bool ItemCheck::is_named(std::string_view key) const {
  if (names_.contains("") || names_.contains("/")) return true;  // an array at the root
  return any_parent(key, [&](std::string_view parent) {
    return names_.contains(parent) || names_.contains(key.substr(0, parent.size() + 1));
  });
}

bool ItemCheck::is_empty_array(std::size_t i) const {
  return std::ranges::count(leaves_.stored[i]->metadata().shape, 0) > 0;
}

void ItemCheck::check_unnamed_arrays() {
  for (const auto& [tensor, key] :
       handlers::find_stray_chunks(item_.keys, names_, leaves_.stored)) {
    const std::string file =
        item_.storage == ArrayStorage::kFolders ? item_.arrays->describe(key) : "";
    // No writer of items stores a chunk of an array without elements, so the shape is damaged. A
    // Zarr array that is not part of an item may have been resized, and then it keeps old chunks.
    if (item_.structure != Structure::kNames && is_empty_array(tensor))
      damage(label(tensor), file,
             "chunk " + key + " is stored, though the array has no elements: its shape is " +
                 shape_text(leaves_.stored[tensor]->metadata().shape));
    else
      note(label(tensor), file, "chunk " + key + " lies outside the array: nothing reads it");
  }
  std::set<std::string> unnamed;
  for (const auto& entry : item_.keys) {
    if (item_.storage == ArrayStorage::kFolders && belongs(entry.key)) continue;
    // If the names come from the metadata keys, keys without a name are groups.
    if (item_.structure == Structure::kNames && handlers::is_metadata_key(entry.key)) continue;
    if (const auto name = handlers::array_of_key(entry.key); name && !is_named(entry.key))
      unnamed.insert(std::string(*name));
  }
  for (const auto& name : unnamed) {
    if (item_.structure == Structure::kNames)
      damage(name, "", "chunks are stored under this name, but no .zarray or zarr.json");
    else
      note(name, "", "this array is stored, but no leaf of the tree has its name");
  }
}

void ItemCheck::check_shardings() {
  const std::string file = path(kShardingFile);
  const auto text = read_if_there(file);
  if (!text) return;
  const auto shardings = try_call([&] { return parse_shardings(*text); });
  if (!shardings) return damage("", file, shardings.error().message());
  has_shardings_ = true;
  for (const auto& sharding : shardings.value()) {
    const auto& name = sharding.first;
    sharded_.insert(name);
    if (!names_.contains(name))
      note(name, file, "a sharding is recorded for a name that no leaf has");
    check_sharding_text(name, file, sharding.second);
  }
}

// Orbax can restore a leaf only with a sharding of the types that it knows.
void ItemCheck::check_sharding_text(const std::string& name, const std::string& file,
                                    const std::string& text) {
  const auto parsed = try_call([&] { return parse_sharding(text); });
  if (!parsed) return damage(name, file, "the recorded sharding: " + parsed.error().message());
  if (!std::holds_alternative<UnknownSharding>(parsed.value()) || !names_.contains(name)) return;
  add(Severity::kNotChecked, name, file,
      "the recorded sharding is of a kind that Cairn does not know: " + text);
}

void ItemCheck::check_strings() {
  const std::string file =
      path(item_.strings_file.empty() ? kStringsFile : std::string_view(item_.strings_file));
  const auto text = read_if_there(file);
  if (!text) return;
  const auto strings = try_call([&] { return parse_strings(*text); });
  if (!strings) return damage("", file, strings.error().message());
  for (const auto& [name, value] : strings.value()) {
    const auto leaf = names_.find(name);
    if (!leaf || leaves_.tensors[*leaf].typestr != "string")
      note(name, file, "a string is stored, but no string leaf has its name");
  }
}

void ItemCheck::check_array_metadatas() {
  const std::string metadatas = path(kArrayMetadataFolder);
  std::optional<std::vector<StoredArrayMetadata>> first;
  std::string first_file;
  const auto listing = try_call([&] { return list_directory(item_.item.folder, metadatas); });
  if (!listing) return failed("", metadatas, listing.error());
  metadata_files_ = listing.value().files.size();
  has_all_array_metadatas_ = true;
  for (const auto& name : listing.value().files) {
    const std::string file = join(metadatas, name);
    const auto text = read_if_there(file);
    if (!text) has_all_array_metadatas_ = false;
    if (!text) continue;
    auto arrays = try_call([&] { return parse_array_metadatas(*text); });
    if (!arrays) {
      damage("", file, arrays.error().message());
      has_all_array_metadatas_ = false;
      continue;
    }
    for (const auto& array : arrays.value()) {
      described_.emplace(array.name, array.write_shape);
      check_array_metadata(array, file);
    }
    auto sorted = std::move(arrays).value();
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    if (first && *first != sorted)
      damage("", file, "differs from " + first_file + "; all processes must agree");
    if (!first) {
      first = std::move(sorted);
      first_file = file;
    }
  }
}

// A leaf that was saved from devices can be restored to devices only if its sharding is recorded or
// the caller supplies one. A version that puts write shapes into `_METADATA` also describes the
// leaf in array_metadatas. Only array_metadatas distinguishes typed PRNG keys from numeric arrays.
void ItemCheck::check_device_arrays() {
  std::vector<std::size_t> saved;
  bool is_described = false;
  for (std::size_t i = 0; i < item_.write_shapes.size(); ++i) {
    if (leaves_.tensors[i].typestr != "jax.Array" || leaves_.values[i].inside) continue;
    saved.push_back(i);
    is_described = is_described || item_.write_shapes[i].has_value();
  }
  if (saved.empty()) return;
  const std::string metadatas = path(kArrayMetadataFolder);
  const bool is_lost = is_described && has_all_array_metadatas_ && metadata_files_ == 0;
  if (is_lost)
    damage("", metadatas,
           "is missing, so it is unknown which of " + counted(saved.size(), "device array") +
               " are typed PRNG keys");
  const std::string shardings = path(kShardingFile);
  if (!folder().exists(shardings))
    damage("", shardings,
           "is missing, so " + counted(saved.size(), "device array") +
               " can be restored only if the caller gives shardings");
  for (const std::size_t i : saved) {
    const std::string& name = leaves_.tensors[i].name;
    check_write_shape(i);
    if (item_.write_shapes[i] && has_all_array_metadatas_ && !is_lost && !described_.contains(name))
      damage(label(i), metadatas, "does not describe this device array");
    // Nobody can tell a lost one from a sharding that has no text, for which Orbax records none.
    if (has_shardings_ && !sharded_.contains(name))
      add(Severity::kNotChecked, label(i), shardings,
          "has no sharding for this device array, so it can be restored only if the caller gives "
          "one");
  }
}

void ItemCheck::check_key_type(std::size_t leaf, const std::string& type, const std::string& file) {
  const auto* known = std::ranges::find(kKeyTypes, type, &PrngKeyType::name);
  const auto& array = leaves_.stored[leaf];
  if (known == std::end(kKeyTypes))
    add(Severity::kNotChecked, label(leaf), file,
        "records that this array holds PRNG keys of '" + type + "', which JAX does not have");
  else if (const Shape& shape = leaves_.tensors[leaf].shape;
           array && (shape.empty() || shape.back() != known->extent))
    damage(label(leaf), file,
           "records that this array holds PRNG keys of '" + type + "', but its shape is " +
               shape_text(shape));
}

void ItemCheck::check_array_metadata(const StoredArrayMetadata& stored, const std::string& file) {
  const auto leaf = names_.find(stored.name);
  if (!leaf) {
    // If the tree is known only from the stored names, this array was stored and is now missing.
    const bool lost = item_.structure == Structure::kNames;
    return add(lost ? Severity::kDamage : Severity::kNote, stored.name, file,
               lost ? "describes an array that is not stored"
                    : "describes an array, but no leaf of the tree has its name");
  }
  const auto& array = leaves_.stored[*leaf];
  if (!stored.random_key_impl.empty()) check_key_type(*leaf, stored.random_key_impl, file);
  if (!array) return;
  const Shape& chunk = array->metadata().chunk_shape;
  if (stored.chunk_shape != chunk && stored.chunk_shape != array->metadata().read_chunk_shape())
    damage(label(*leaf), file,
           "records chunk shape " + shape_text(stored.chunk_shape) +
               "; the array's chunks have shape " + shape_text(chunk));
  else if (!is_part_of(stored.write_shape, array->metadata().shape))
    damage(label(*leaf), file,
           "records write shape " + shape_text(stored.write_shape) + " for an array of shape " +
               shape_text(array->metadata().shape));
}

// Compares the write shape that `_METADATA` records with the one in array_metadatas, or, without
// that, with the array. Orbax restores without the one in `_METADATA`.
void ItemCheck::check_write_shape(std::size_t i) {
  const auto& recorded = item_.write_shapes[i];
  if (!recorded) return;
  const std::string file = path(kTreeMetadataFile);
  const std::string says = "records write shape " + shape_text(*recorded);
  if (const auto described = described_.find(leaves_.tensors[i].name);
      described != described_.end()) {
    if (described->second != *recorded)
      note(label(i), file,
           says + "; " + std::string(kArrayMetadataFolder) + " records " +
               shape_text(described->second));
    return;
  }
  if (!leaves_.stored[i]) return;
  const zarr::ArrayMetadata& array = leaves_.stored[i]->metadata();
  if (!is_part_of(*recorded, array.shape))
    damage(label(i), file, says + " for an array of shape " + shape_text(array.shape));
  else if (!is_part_of(array.read_chunk_shape(), *recorded))
    damage(label(i), file,
           says + "; the array's chunks have shape " + shape_text(array.read_chunk_shape()));
}

// Returns true for 32 hexadecimal digits, optionally after a prefix.
bool is_data_file_name(std::string_view name) {
  constexpr std::size_t kDigits = 32;
  return name.size() >= kDigits &&
         name.substr(name.size() - kDigits).find_first_not_of("0123456789abcdef") ==
             std::string_view::npos;
}

// Returns true if a file in the item's folder is metadata or part of a database.
bool ItemCheck::belongs(std::string_view key) const {
  const auto is_custom_leaf = [&](std::string_view parent) {
    const auto leaf = names_.find(parent);
    return leaf && is_custom(*leaf);
  };
  return any_parent(key, is_custom_leaf) || is_item_file(key) ||
         key.starts_with(std::string(kArrayMetadataFolder) + "/") ||
         key.starts_with("descriptor/") || files_.contains(std::string(key));
}

void ItemCheck::check_orphans() {
  const auto files = try_call([&] { return item_.files->list(""); });
  if (!files) return failed("", item_.item.path, files.error());
  // A custom type handler may store its leaves in files of any name.
  bool has_custom = false;
  for (std::size_t i = 0; i < leaves_.tensors.size(); ++i)
    has_custom = has_custom || leaves_.tensors[i].is_custom();
  // Maps each folder to its number of leftover files and their bytes.
  std::map<std::string, std::pair<std::size_t, std::uint64_t>> leftovers;
  for (const auto& entry : files.value()) {
    if (belongs(entry.key)) continue;
    if (has_custom && !entry.key.ends_with(".__lock")) continue;
    // Keys of arrays are already checked. This check finds files that cannot be keys of an array.
    const std::string_view last = name_of(entry.key);
    const bool of_zarr = handlers::array_of_key(entry.key).has_value() || last == ".zgroup" ||
                         last == ".zmetadata" || last == "zarr.json";
    if (item_.storage == ArrayStorage::kFolders && of_zarr) continue;
    if (item_.storage != ArrayStorage::kFolders && is_data_file_name(last)) {
      auto& [count, bytes] = leftovers[std::string(folder_prefix(entry.key))];
      ++count;
      bytes += entry.size;
    } else {
      note("", path(entry.key),
           last.ends_with(".__lock") ? "a lock file was left behind"
                                     : "nothing refers to this file");
    }
  }
  // Each later commit to a database may leave some of them. They are common in the folders of
  // processes.
  for (const auto& [name, sum] : leftovers)
    note("", path(name),
         std::to_string(sum.first) + " data file" + (sum.first == 1 ? "" : "s") +
             " that nothing refers to (" + std::to_string(sum.second) + " bytes)");
}

}  // namespace

void verify_item(const PytreeItem& item, const ItemLeaves& leaves, VerifyReport& report) {
  ItemCheck(item, leaves, report).run();
  verify_groups(item, report);
}

VerifyPart OrbaxCheckpoint::verify_part(WorkShare share, const ProgressFn& progress) const {
  VerifyPart part;
  const bool first_share = share.index == 0;
  if (first_share) verify_surroundings(layout_, part.around);
  std::vector<handlers::ArrayCheck> checks;
  std::vector<std::size_t> tensors;  // parallel to checks
  for (std::size_t first = 0, i = 0; i < items_.size(); ++i) {
    const std::size_t count = leaf_counts_[i];
    if (first_share)
      verify_item(
          items_[i],
          {std::span(tensors_).subspan(first, count), std::span(stored_).subspan(first, count),
           std::span(values_).subspan(first, count)},
          part.around);
    for (std::size_t t = first; t < first + count; ++t) {
      if (!stored_[t]) continue;
      checks.push_back({.array = &*stored_[t],
                        .label = label(t),
                        .missing = missing_[t],
                        .in_database = items_[i].storage != ArrayStorage::kFolders,
                        .must_suit_tensorstore = items_[i].structure != Structure::kNames});
      tensors.push_back(t);
    }
    first += count;
  }
  for (const LostItem& lost : lost_)
    if (first_share) verify_lost_item(lost, part.around);
  if (first_share) part.around.tensors += checks.size();
  part.arrays = handlers::verify_arrays(checks, share, limits(), progress);
  for (CheckedArray& array : part.arrays) array.tensor = tensors[array.tensor];
  // If an item has been replaced, missing or newer data is not damage.
  for (const auto& item : items_) orbax::check_not_replaced(item);
  layout_.folder->check_still_in_use();
  return part;
}

}  // namespace cairn::inline v0::orbax
