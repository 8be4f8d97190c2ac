// leaf_folders.cc -- folders for leaves that are saved apart from the rest of their item, and the
// moves of their files to where the format has them.
//
//   ocdbt.process_cairn<n>/            the database of one process; finalize merges it in place
//   cairn.tmp_<n>/                     the arrays of one process without a database
//   cairn.tmp_<id>/ocdbt.process_<i>/  the databases of processes that save together
//
// leaf_files.cc does the same in a store, where a move is a copy and a removal.
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/bytes.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/leaf_files.h>

namespace cairn::inline v0 {
namespace {

using orbax::join;
using orbax::join_array_metadatas;
using orbax::join_members;
using orbax::JoinFn;
using orbax::kLeafDatabase;
using orbax::kLeafFolder;

// Removes a folder whose entries have moved.
void remove_empty_folder(const Directory& parent, const std::string& name) {
  if (!parent.child(name).list().empty())
    throw Error(Code::kIo, parent.path_of(name) + ": cannot be removed: it is not empty");
  parent.remove(name);
}

// Moves an entry. A file takes the place of a file. If both are folders, what is in the first moves
// into the second.
void move_entry(const Directory& from, const std::string& name, const Directory& into) {
  const bool is_folder = from.kind(name) == EntryKind::kDirectory;
  const EntryKind there = into.kind(name);
  if (is_folder && there == EntryKind::kDirectory) {
    const Directory folder = from.child(name), target = into.child(name);
    for (const DirectoryEntry& entry : folder.list()) move_entry(folder, entry.name, target);
    return remove_empty_folder(from, name);
  }
  if (!is_folder && there == EntryKind::kFile) into.remove(name);
  from.move(name, into, name);
}

JsonObject read_object(const std::string& file) {
  return orbax::leaf_file_object(as_text(read_text_file(file, orbax::kMaxMetadataFile)), file);
}

// Moves a file of JSON. If the target exists, it gets what both have.
void place_file(const Directory& from, const std::string& name, const Directory& into,
                JoinFn joined) {
  if (into.kind(name) == EntryKind::kAbsent) return from.move(name, into, name);
  const std::string target = into.path_of(name);
  const std::string text =
      to_text(joined(read_object(target), read_object(from.path_of(name))), JsonStyle::kPython);
  write_file_atomically(target, as_bytes(text), Durability::kUnsynced);
  from.remove(name);
}

void place_array_metadatas(const Directory& from, const Directory& into) {
  const std::string name(orbax::kArrayMetadataFolder);
  (void)into.make(name);
  const Directory folder = from.child(name), target = into.child(name);
  for (const DirectoryEntry& entry : folder.list())
    place_file(folder, entry.name, target, join_array_metadatas);
  remove_empty_folder(from, name);
}

void place_entry(const Directory& from, const DirectoryEntry& entry, bool is_database,
                 const Directory& into) {
  const bool is_folder = entry.kind == EntryKind::kDirectory;
  if (!is_folder && entry.name == orbax::kTreeMetadataFile)
    from.remove(entry.name);  // of these leaves only; that of the item has them all
  else if (is_folder && entry.name == orbax::kArrayMetadataFolder)
    place_array_metadatas(from, into);
  else if (is_folder && !is_database)
    move_entry(from, entry.name, into);
  else if (!is_folder && entry.name != orbax::kManifestFile)
    place_file(from, entry.name, into, join_members);
}

void check_leaf_folder_id(const std::string& id) {
  if (id.empty() || id == "." || id == ".." || id.find('/') != std::string::npos)
    invalid_argument("the id '" + id + "' of a folder of leaves cannot be a part of its name");
}

}  // namespace

std::string make_leaf_folder(const std::string& directory, bool use_ocdbt) {
  if (is_store_url(directory)) return orbax::leaf_folder_in_store(directory, use_ocdbt);
  const Directory parent = Directory::open(directory);
  for (std::size_t number = 0;; ++number) {
    const std::string name =
        std::string(use_ocdbt ? kLeafDatabase : kLeafFolder) + std::to_string(number);
    if (parent.make(name)) return join(directory, name);
  }
}

std::string make_shared_leaf_folder(const std::string& directory, const std::string& id) {
  check_leaf_folder_id(id);
  std::string folder = join(directory, std::string(kLeafFolder) + id);
  if (!is_store_url(directory)) make_directories(folder, Durability::kDeferredSync);
  return folder;
}

void place_leaf_folder(const std::string& folder, const std::string& directory) {
  if (is_store_url(directory)) return orbax::place_leaf_folder_in_store(folder, directory);
  const Directory from = Directory::open(folder), into = Directory::open(directory);
  const bool is_database = from.kind(std::string(orbax::kManifestFile)) != EntryKind::kAbsent;
  for (const DirectoryEntry& entry : from.list()) place_entry(from, entry, is_database, into);
  if (is_database) return;
  const std::string full = absolute_path(folder);
  remove_empty_folder(Directory::open(parent_of(full)), std::string(name_of(full)));
}

void place_shared_leaf_folders(const std::string& directory) {
  if (is_store_url(directory)) return orbax::place_shared_leaf_folders_in_store(directory);
  const Directory item = Directory::open(directory);
  for (const DirectoryEntry& entry : item.list()) {
    if (entry.kind != EntryKind::kDirectory || !entry.name.starts_with(kLeafFolder)) continue;
    const Directory folder = item.child(entry.name);
    const std::string prefix =
        std::string(kLeafDatabase) + entry.name.substr(kLeafFolder.size()) + "x";
    for (const DirectoryEntry& process : folder.list())
      if (process.kind == EntryKind::kDirectory && process.name.starts_with(orbax::kProcessPrefix))
        folder.move(process.name, item, prefix + process.name.substr(orbax::kProcessPrefix.size()));
    place_leaf_folder(item.path_of(entry.name), directory);
  }
}

}  // namespace cairn::inline v0
