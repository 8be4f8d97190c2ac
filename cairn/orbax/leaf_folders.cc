// leaf_folders.cc -- folders for leaves that are saved apart from the rest of their item, and the
// moves of their files to where the format has them.
//
//   ocdbt.process_cairn_<n>/           the database of one process; finalize merges it in place
//   cairn.tmp_<n>/                     the arrays of one process without a database
//   cairn.tmp_<id>/ocdbt.process_<i>/  the databases of processes that save together
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <cairn/base/json/json.h>
#include <cairn/bytes.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>

#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0 {
namespace {

using orbax::join;

constexpr std::string_view kLeafFolder = "cairn.tmp_";
constexpr std::string_view kLeafDatabase = "ocdbt.process_cairn_";

// Gives a file or folder another name. Replaces a file of that name.
void move_to(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) throw Error(Code::kIo, from + ": cannot be moved to " + to + ": " + error.message());
}

void remove_empty_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove(folder, error);
  if (error) throw Error(Code::kIo, folder + ": cannot be removed: " + error.message());
}

// Moves a folder. If the target exists, what is in the folder moves into it.
void move_folder(const std::string& from, const std::string& to) {
  if (!directory_exists(to)) return move_to(from, to);
  const orbax::Listing listing = orbax::list_directory(from);
  for (const std::string& name : listing.folders) move_folder(join(from, name), join(to, name));
  for (const std::string& name : listing.files) move_to(join(from, name), join(to, name));
  remove_empty_folder(from);
}

JsonObject read_object(const std::string& file) {
  return with_context(
      [&] { return file; },
      [&] {
        const Json json = parse_json(as_text(read_text_file(file, orbax::kMaxMetadataFile)));
        if (const JsonObject* members = json.as_object()) return *members;
        throw Error(Code::kDataLoss, "expected an object, found " + std::string(json.type_text()));
      });
}

using JoinFn = JsonObject (*)(const JsonObject& first, const JsonObject& second);

// The members of both; of equal keys, the value of the second in the place of the first.
JsonObject join_members(const JsonObject& first, const JsonObject& second) {
  JsonObject out = first;
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < out.size(); ++i) places[out[i].first] = i;
  for (const auto& [key, value] : second) {
    const auto [place, is_new] = places.try_emplace(key, out.size());
    if (is_new)
      out.emplace_back(key, value);
    else
      out[place->second].second = value;
  }
  return out;
}

// The records of both.
JsonObject join_array_metadatas(const JsonObject& first, const JsonObject& second) {
  JsonArray records;
  for (const JsonObject* part : {&first, &second})
    for (const auto& [key, value] : *part)
      if (const JsonArray* some = value.as_array();
          some != nullptr && key == orbax::kArrayMetadataFolder)
        records.insert(records.end(), some->begin(), some->end());
  return {{std::string(orbax::kArrayMetadataFolder), std::move(records)}};
}

// Moves a file of JSON. If the target exists, it gets what both have.
void place_file(const std::string& from, const std::string& to, JoinFn joined) {
  if (!file_exists(to)) return move_to(from, to);
  const std::string text = to_text(joined(read_object(to), read_object(from)), JsonStyle::kPython);
  write_file_atomically(to, as_bytes(text), Durability::kUnsynced);
  remove_file(from);
}

void place_array_metadatas(const std::string& from, const std::string& to) {
  make_directories(to, Durability::kDeferredSync);
  for (const std::string& name : orbax::list_directory(from).files)
    place_file(join(from, name), join(to, name), join_array_metadatas);
  remove_empty_folder(from);
}

}  // namespace

std::string make_leaf_folder(const std::string& directory, bool use_ocdbt) {
  const Directory parent = Directory::open(directory);
  for (std::size_t number = 0;; ++number) {
    const std::string name =
        std::string(use_ocdbt ? kLeafDatabase : kLeafFolder) + std::to_string(number);
    if (parent.make(name)) return join(directory, name);
  }
}

std::string make_shared_leaf_folder(const std::string& directory, const std::string& id) {
  std::string folder = join(directory, std::string(kLeafFolder) + id);
  make_directories(folder, Durability::kDeferredSync);
  return folder;
}

void place_leaf_folder(const std::string& folder, const std::string& directory) {
  const orbax::Listing listing = orbax::list_directory(folder);
  const bool is_database = listing.has_file(orbax::kManifestFile);
  for (const std::string& name : listing.files) {
    if (name == orbax::kTreeMetadataFile)
      remove_file(join(folder, name));  // of these leaves only; that of the item has them all
    else if (name != orbax::kManifestFile)
      place_file(join(folder, name), join(directory, name), join_members);
  }
  for (const std::string& name : listing.folders) {
    if (name == orbax::kArrayMetadataFolder)
      place_array_metadatas(join(folder, name), join(directory, name));
    else if (!is_database)
      move_folder(join(folder, name), join(directory, name));
  }
  if (!is_database) remove_empty_folder(folder);
}

void place_shared_leaf_folders(const std::string& directory) {
  for (const std::string& name : orbax::list_directory(directory).folders) {
    if (!name.starts_with(kLeafFolder)) continue;
    const std::string folder = join(directory, name);
    const std::string prefix = std::string(kLeafDatabase) + name.substr(kLeafFolder.size()) + "_";
    for (const std::string& process : orbax::list_directory(folder).folders)
      if (process.starts_with(orbax::kProcessPrefix))
        move_to(join(folder, process),
                join(directory, prefix + process.substr(orbax::kProcessPrefix.size())));
    place_leaf_folder(folder, directory);
  }
}

}  // namespace cairn::inline v0
