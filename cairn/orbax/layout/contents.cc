// contents.cc -- checks the names that each directory of a checkpoint may contain.
//
//   step or v1 checkpoint   its marks, and items: those that _CHECKPOINT_METADATA lists, if it does
//   of one handler of JSON, of a protocol buffer or of a random key: its file, or its folders
//   item                    its metadata; a database or the folders of its parameters;
//                           array_metadatas. Of a handler that is not Orbax's own: any files
//   database                manifest.ocdbt, manifest.<hex>, data folders with files named by 32 hex
//                           digits
//   of PyTorch              .metadata or __<rank>.metadata, __<rank>_<number>.distcp
//   parameter               .zarray or zarr.json, chunks (0.1, c/0/1), and folders: a name may
//                           contain '/'
#include <cairn/orbax/layout/contents.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/tree.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::string_view kLockEnding = ".__lock";  // the suffix of TensorStore's lock files
constexpr std::size_t kIdDigits = 32;                // the length of a data file's name

constexpr std::array<std::string_view, 4> kItemFiles = {kTreeMetadataFile, kShardingFile,
                                                        kStringsFile, kCommitFile};
constexpr std::array<std::string_view, 3> kStepFiles = {kCheckpointMetadataFile, kV1Marker,
                                                        kDeletionFile};
// Files of items that are not pytrees: JSON, proto text, metrics, and the process metadata of an
// emergency checkpoint.
constexpr std::array<std::string_view, 6> kOtherItemFiles = {
    "metadata",    "data.json",          "metrics",
    "proto.pbtxt", "mesh_metadata.json", "global_process_metadata.json"};
constexpr std::array<std::string_view, 4> kRandomKeyFolders = {
    "jax_random_key", "jax_random_key_metadata", "np_random_key", "np_random_key_metadata"};
constexpr std::array<std::string_view, 4> kArrayFiles = {".zarray", "zarr.json", ".zattrs",
                                                         ".zgroup"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns true for names like "0" and "12.0.3", and for "c", the chunk of a Zarr v3 array without
// dimensions.
bool is_chunk_name(std::string_view name) {
  if (name == "c") return true;
  while (true) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    if (!consists_of(name.substr(0, dot), kDecimalDigits)) return false;
    if (dot == name.size()) return true;
    name.remove_prefix(dot + 1);
  }
}

// Returns the final name of a file that is being written.
std::string_view final_name(std::string_view name) {
  if (is_temporary_name(name)) return temporary_target(name);
  return name.ends_with(kLockEnding) ? name.substr(0, name.size() - kLockEnding.size()) : name;
}

bool is_step_file(std::string_view name) {
  return is_one_of(kStepFiles, name) || name.starts_with(kDeletionTemporaryPrefix);
}

// Returns true for the names of the files of a Distributed Checkpoint of PyTorch.
bool is_distributed_file(std::string_view name) {
  if (name.ends_with(".tmp")) name.remove_suffix(4);
  if (name == kDistributedFile) return true;
  if (!name.starts_with("__")) return false;
  name.remove_prefix(2);
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view ending = name.substr(dot);
  std::string_view number = name.substr(0, dot);
  const std::size_t line = number.find('_');
  if (ending == ".metadata") return consists_of(number, kDecimalDigits);
  return ending == kDistributedDataEnding && line != std::string_view::npos &&
         consists_of(number.substr(0, line), kDecimalDigits) &&
         consists_of(number.substr(line + 1), kDecimalDigits);
}

bool is_temporary_mark_in(std::string_view name) {
  return name.find(kTemporaryMark) != std::string_view::npos;
}

// A folder of this machine or of a store, whose names are checked.
class CheckedFolder {
 public:
  explicit CheckedFolder(const FolderPtr& folder) : CheckedFolder(folder, folder->path()) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(std::string_view name) const { return join(path_, name); }
  [[nodiscard]] CheckedFolder child(std::string_view name) const {
    return {folder_, path_of(name)};
  }
  // All entries, sorted by name.
  [[nodiscard]] std::vector<DirectoryEntry> list() const {
    std::vector<DirectoryEntry> entries;
    for (FolderEntry& entry : folder_->entries(path_))
      entries.push_back({std::move(entry.name), entry.kind});
    std::ranges::sort(entries, {}, &DirectoryEntry::name);
    return entries;
  }
  [[nodiscard]] File open(std::string_view name) const { return folder_->open_file(path_of(name)); }
  [[nodiscard]] Buffer read(std::string_view name) const {
    return folder_->read_text(path_of(name), kMaxMetadataFile);
  }

 private:
  CheckedFolder(FolderPtr folder, std::string path)
      : folder_(std::move(folder)), path_(std::move(path)) {}

  FolderPtr folder_;
  std::string path_;
};

class Contents {
 public:
  explicit Contents(bool temporary) : temporary_(temporary) {}

  // As check_top, but accepts foreign files in the directory itself, and returns their names.
  std::vector<std::string> check_below(const CheckedFolder& directory) {
    top_ = &directory;
    check_top(directory);
    return std::move(foreign_);
  }

  void check_top(const CheckedFolder& directory) {
    const auto entries = directory.list();
    if (entries.empty()) return;
    const std::string handler = temporary_ ? "" : only_handler(directory, entries);
    if (is_file_handler(handler) || is_random_key_handler(handler))
      return check_direct(directory, entries, handler);
    const bool step = is_step(entries);
    const bool item = is_item(directory, entries);
    if (!item && is_distributed(entries))
      return step || temporary_ ? check_step(directory, entries)
                                : check_files(directory, is_distributed_file);
    if (!temporary_ && !step && !item) refuse_without_identity(directory);
    // An unfinished save may have created only a few folders so far, of parameters or of items.
    if (temporary_ || item || has_parameters(directory, entries))
      return check_item(directory, entries, true);
    check_step(directory, entries);
  }

  // Returns the handler that has written the checkpoint without items, or "".
  static std::string only_handler(const CheckedFolder& directory,
                                  const std::vector<DirectoryEntry>& entries) {
    const std::map<std::string, std::string> listed = listed_items(directory, entries);
    return listed.size() == 1 && listed.begin()->first.empty() ? listed.begin()->second : "";
  }

  // Steps of old versions have no file of their own: their items identify them.
  static void check_identity(const CheckedFolder& directory) {
    const auto entries = directory.list();
    const auto is_item_folder = [&](const DirectoryEntry& e) {
      if (e.kind != EntryKind::kDirectory) return false;
      const CheckedFolder child = directory.child(e.name);
      return is_item(child, child.list());
    };
    if (!entries.empty() && !is_step(entries) && !is_item(directory, entries) &&
        !is_distributed(entries) && std::ranges::none_of(entries, is_item_folder))
      refuse_without_identity(directory);
  }

 private:
  [[noreturn]] static void refuse_without_identity(const CheckedFolder& directory) {
    throw Error(
        Code::kAlreadyExists,
        directory.path() +
            ": is a directory without the files of a checkpoint (it has none of _METADATA, "
            "_CHECKPOINT_METADATA, orbax.checkpoint, manifest.ocdbt), so it is not replaced or "
            "removed");
  }

  static bool is_step(const std::vector<DirectoryEntry>& entries) {
    return has(entries, kCheckpointMetadataFile) || has(entries, kV1Marker);
  }

  static bool is_distributed(const std::vector<DirectoryEntry>& entries) {
    return std::ranges::any_of(entries, [](const DirectoryEntry& e) {
      return e.kind == EntryKind::kFile && is_distributed_file(final_name(e.name));
    });
  }

  static bool has(const std::vector<DirectoryEntry>& entries, std::string_view name) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& e) { return e.name == name && e.kind == EntryKind::kFile; });
  }

  // TensorFlow checkpoints have a text file named `checkpoint`; in an Orbax checkpoint this file is
  // a msgpack map.
  static bool has_aggregate(const CheckedFolder& directory,
                            const std::vector<DirectoryEntry>& entries) {
    if (!has(entries, kAggregateFile)) return false;
    const auto first = try_call([&] {
      std::byte byte{};
      directory.open(kAggregateFile).read_into(0, MutableByteView(&byte, 1));
      return std::to_integer<char>(byte);
    });
    return first && (first.value() < 'a' || first.value() > 'z');
  }

  static bool is_item(const CheckedFolder& directory, const std::vector<DirectoryEntry>& entries) {
    return has(entries, kTreeMetadataFile) || has(entries, kManifestFile) ||
           has_aggregate(directory, entries) ||
           std::any_of(entries.begin(), entries.end(), [&](const auto& e) {
             return e.kind == EntryKind::kDirectory &&
                    is_process_database(directory.child(e.name), e.name);
           });
  }

  static bool is_process_database(const CheckedFolder& directory, std::string_view name) {
    return name.starts_with(kProcessPrefix) &&
           std::ranges::all_of(directory.list(), [](const DirectoryEntry& e) {
             return is_database_entry(e.name, e.kind == EntryKind::kDirectory);
           });
  }

  // The oldest checkpoints have only parameter folders beside the files that mark a checkpoint.
  static bool has_parameters(const CheckedFolder& directory,
                             const std::vector<DirectoryEntry>& entries) {
    return std::any_of(entries.begin(), entries.end(), [&](const DirectoryEntry& e) {
      return e.kind == EntryKind::kDirectory && is_array(directory.child(e.name).list());
    });
  }

  static bool is_array(const std::vector<DirectoryEntry>& entries) {
    return has(entries, ".zarray") || has(entries, "zarr.json");
  }

  [[noreturn]] static void refuse(const CheckedFolder& directory, const DirectoryEntry& entry) {
    throw Error(Code::kAlreadyExists, directory.path_of(entry.name) + ": is " +
                                          std::string(entry_kind_text(entry.kind)) +
                                          " that does not belong to a checkpoint; nothing is "
                                          "replaced or removed while it is there");
  }

  // Throws for the first entry that neither callback accepts. `known_folder` also checks the
  // contents of the folder.
  template <class KnownFile, class KnownFolder>
  void check_entries(const CheckedFolder& directory, const std::vector<DirectoryEntry>& entries,
                     KnownFile known_file, KnownFolder known_folder) {
    for (const DirectoryEntry& entry : entries) {
      const bool known = entry.kind == EntryKind::kFile ? known_file(final_name(entry.name))
                         : entry.kind == EntryKind::kDirectory
                             ? known_folder(directory.child(entry.name), entry.name)
                             : false;
      if (known) continue;
      if (&directory != top_ || entry.kind != EntryKind::kFile) refuse(directory, entry);
      foreign_.push_back(entry.name);
    }
  }

  // Checks that the directory contains only files that `known` accepts.
  template <class Known>
  void check_files(const CheckedFolder& directory, Known known) {
    check_entries(directory, directory.list(), known,
                  [](const CheckedFolder&, const std::string&) { return false; });
  }

  void check_step(const CheckedFolder& directory, const std::vector<DirectoryEntry>& entries) {
    const std::map<std::string, std::string> listed = listed_items(directory, entries);
    check_entries(
        directory, entries,
        [has_distributed = is_distributed(entries)](std::string_view name) {
          return is_step_file(name) || name == kCommitFile ||
                 (has_distributed && is_distributed_file(name));
        },
        [&](const CheckedFolder& child, const std::string& name) {
          if (is_temporary_mark_in(name))
            return Contents(true).check_item(child, child.list(), false), true;
          const auto item = listed.find(name);
          if (!listed.empty() && item == listed.end()) return false;
          if (item != listed.end() && is_foreign_handler(item->second))
            return check_foreign(child), true;
          return check_item(child, child.list(), false), true;
        });
  }

  // Checks a checkpoint that is_file_handler() or is_random_key_handler() has written directly.
  void check_direct(const CheckedFolder& directory, const std::vector<DirectoryEntry>& entries,
                    std::string_view handler) {
    const bool is_file = is_file_handler(handler);
    const std::string file = is_file ? item_file(entries, handler) : "";
    check_entries(
        directory, entries,
        [&](std::string_view name) {
          return is_step_file(name) || name == kCommitFile || (is_file && name == file);
        },
        [&](const CheckedFolder& child, const std::string& name) {
          if (is_file || !is_one_of(kRandomKeyFolders, name)) return false;
          return check_item(child, child.list(), false), true;
        });
  }

  // Returns the name of the file that the handler has written: the only one, or the one of the
  // usual name. "" if others have added files, and the program has chosen the name.
  static std::string item_file(const std::vector<DirectoryEntry>& entries,
                               std::string_view handler) {
    std::vector<std::string> names;
    for (const DirectoryEntry& entry : entries)
      if (entry.kind == EntryKind::kFile && entry.name != kCommitFile &&
          !is_step_file(final_name(entry.name)))
        names.push_back(entry.name);
    if (names.size() == 1) return names.front();
    const std::string usual(handler.ends_with(".JsonCheckpointHandler") ? kJsonItemFile
                                                                        : kProtoItemFile);
    return has(entries, usual) ? usual : "";
  }

  // Returns the items that the metadata lists, with their handlers. Empty if the metadata lists
  // none, or if the save ended before it was written.
  static std::map<std::string, std::string> listed_items(
      const CheckedFolder& directory, const std::vector<DirectoryEntry>& entries) {
    std::map<std::string, std::string> items;
    if (!has(entries, kCheckpointMetadataFile)) return items;
    const auto metadata = try_call([&] {
      return parse_checkpoint_metadata(as_text(directory.read(kCheckpointMetadataFile)));
    });
    if (!metadata) return items;
    items.insert(metadata.value().item_handlers.begin(), metadata.value().item_handlers.end());
    return items;
  }

  // Accepts files and folders of any name, and nothing else.
  void check_foreign(const CheckedFolder& directory) {
    check_entries(
        directory, directory.list(), [](std::string_view) { return true; },
        [&](const CheckedFolder& child, const std::string&) { return check_foreign(child), true; });
  }

  // `top`: the item is the checkpoint itself.
  void check_item(const CheckedFolder& directory, const std::vector<DirectoryEntry>& entries,
                  bool top) {
    const bool database = has(entries, kManifestFile);
    // A tree that consists of one array has no parameter name.
    const bool array = temporary_ || is_array(entries);
    const std::set<std::string> parameters = names_of_parameters(directory, entries);
    std::map<std::string, std::string> items;  // of an unfinished checkpoint
    if (temporary_ && top) items = listed_items(directory, entries);
    check_entries(
        directory, entries,
        [&](std::string_view name) {
          return is_one_of(kItemFiles, name) || name == kAggregateFile || is_manifest(name) ||
                 (top && is_step_file(name)) ||
                 ((!top || temporary_) && is_one_of(kOtherItemFiles, name)) ||
                 (array && (is_one_of(kArrayFiles, name) || is_chunk_name(name)));
        },
        [&](const CheckedFolder& child, const std::string& name) {
          if (name == kArrayMetadataFolder) return check_array_metadatas(child), true;
          if (is_one_of(kDataFolders, name)) return check_data(child), true;
          if (is_process_database(child, name)) return check_database(child), true;
          if (!top && is_one_of(kRandomKeyFolders, name.substr(0, name.find(kTemporaryMark))))
            return check_item(child, child.list(), false), true;
          if (array && is_chunk_name(name)) return check_chunks(child), true;
          const auto item = items.find(name);
          if (item != items.end() && is_foreign_handler(item->second))
            return check_foreign(child), true;
          if (temporary_ && top && is_unfinished_item(child, name))
            return check_item(child, child.list(), false), true;
          return (temporary_ || !database) && check_parameter(child, name, parameters);
        });
  }

  // Returns true if a folder of an unfinished checkpoint is an item and not a parameter: anything
  // except an array.
  static bool is_unfinished_item(const CheckedFolder& directory, const std::string& name) {
    if (is_temporary_mark_in(name)) return true;
    const auto entries = directory.list();
    const auto is_items = [&](const DirectoryEntry& e) {
      return e.name == kArrayMetadataFolder || is_one_of(kDataFolders, e.name) ||
             e.name.starts_with(kProcessPrefix) || is_one_of(kItemFiles, final_name(e.name)) ||
             is_one_of(kOtherItemFiles, final_name(e.name)) || is_manifest(final_name(e.name)) ||
             is_one_of(kRandomKeyFolders, e.name);
    };
    // It is also an item if its parameters have their own folders.
    const auto has_array = [&](const DirectoryEntry& e) {
      return e.kind == EntryKind::kDirectory && !is_chunk_name(e.name) &&
             is_array(directory.child(e.name).list());
    };
    return std::ranges::any_of(entries, is_items) || std::ranges::any_of(entries, has_array);
  }

  // Returns the parameter names, or an empty set if they are unknown.
  static std::set<std::string> names_of_parameters(const CheckedFolder& directory,
                                                   const std::vector<DirectoryEntry>& entries) {
    std::set<std::string> names;
    if (!has(entries, kTreeMetadataFile)) return names;
    const auto metadata = try_call([&] {
      const Buffer text = directory.read(kTreeMetadataFile);
      return parse_tree_metadata(as_text(text));
    });
    if (!metadata) return names;
    names.insert("");  // keeps the set non-empty for a tree without leaves
    for (const LeafMetadata& leaf : metadata.value().leaves) names.insert(param_name(leaf.path));
    return names;
  }

  // Returns true if the folder is a parameter's folder or the parent of one: parameter names may
  // contain '/'.
  static bool leads_to_one(const std::string& folder, const std::set<std::string>& names) {
    if (names.empty() || names.contains(folder)) return true;
    const auto below = names.lower_bound(folder + "/");
    return below != names.end() && below->starts_with(folder + "/");
  }

  static bool is_manifest(std::string_view name) {
    return name == kManifestFile ||
           (name.starts_with("manifest.") && consists_of(name.substr(9), kHexDigits));
  }

  void check_array_metadatas(const CheckedFolder& directory) {
    check_files(directory, [](std::string_view name) {
      return name.starts_with(kArrayMetadataPrefix) &&
             consists_of(name.substr(kArrayMetadataPrefix.size()), kDecimalDigits);
    });
  }

  void check_data(const CheckedFolder& directory) {
    check_files(directory, [](std::string_view name) {
      return name.size() == kIdDigits && consists_of(name, kHexDigits);
    });
  }

  void check_database(const CheckedFolder& directory) {
    check_entries(directory, directory.list(), is_manifest,
                  [&](const CheckedFolder& child, const std::string& name) {
                    if (is_one_of(kDataFolders, name)) return check_data(child), true;
                    // A process's database may itself be the result of a merge and then contains
                    // the databases it was merged from.
                    return name.starts_with(kProcessPrefix) && (check_database(child), true);
                  });
  }

  // Returns false if the folder does not belong to a parameter, or if it is empty. A finished save
  // never leaves an empty folder.
  bool check_parameter(const CheckedFolder& directory, const std::string& folder,
                       const std::set<std::string>& parameters) {
    if (!temporary_ && !leads_to_one(folder, parameters)) return false;
    const auto entries = directory.list();
    const bool array = temporary_ || is_array(entries);
    check_entries(
        directory, entries,
        [&](std::string_view name) {
          return array && (is_one_of(kArrayFiles, name) || is_chunk_name(name));
        },
        [&](const CheckedFolder& child, const std::string& name) {
          if (array && is_chunk_name(name)) return check_chunks(child), true;
          return check_parameter(child, folder + "/" + name, parameters);
        });
    return temporary_ || !entries.empty();
  }

  void check_chunks(const CheckedFolder& directory) {
    check_entries(directory, directory.list(), is_chunk_name,
                  [&](const CheckedFolder& child, const std::string& name) {
                    return is_chunk_name(name) && (check_chunks(child), true);
                  });
  }

  bool temporary_;
  const CheckedFolder* top_ = nullptr;  // where foreign files are accepted
  std::vector<std::string> foreign_;    // their names
};

}  // namespace

void check_only_checkpoint(const FolderPtr& folder, DirectoryRole role, ForeignFiles foreign) {
  const CheckedFolder checked(folder);
  Contents contents(role == DirectoryRole::kTemporary);
  if (foreign == ForeignFiles::kRefuse)
    contents.check_top(checked);
  else if (role == DirectoryRole::kTarget && foreign == ForeignFiles::kKeepFiles)
    contents.check_below(checked);
  else if (role == DirectoryRole::kTarget)
    Contents::check_identity(checked);
}

void check_only_checkpoint(const Directory& directory, DirectoryRole role, ForeignFiles foreign) {
  check_only_checkpoint(LocalFolder::hold(directory), role, foreign);
}

std::vector<std::string> foreign_files(const Directory& directory) {
  return Contents(false).check_below(CheckedFolder(LocalFolder::hold(directory)));
}

ForeignFiles foreign_of(const FolderHandle& folder, ForeignFiles foreign) {
  if (foreign != ForeignFiles::kKeepFiles) return foreign;
  const auto metadata = try_call([&] {
    return read_checkpoint_metadata(folder, join(folder.path(), kCheckpointMetadataFile));
  });
  if (!metadata) return foreign;
  const auto& handlers = metadata.value().item_handlers;
  const bool is_direct = handlers.size() == 1 && handlers.front().first.empty();
  return is_direct && owns_all_files(handlers.front().second) ? ForeignFiles::kRemove : foreign;
}

bool is_one_file(const Directory& directory) {
  const CheckedFolder checked(LocalFolder::hold(directory));
  return is_file_handler(Contents::only_handler(checked, checked.list()));
}

}  // namespace cairn::inline v0::orbax
