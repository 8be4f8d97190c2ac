// leaf_files.cc -- joins files of JSON, and moves the files of leaves in a store.
#include <cairn/orbax/leaf_files.h>

#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/kvstore/folders/copy_value.h>
#include <cairn/kvstore/folders/output_folder.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/layout.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::size_t kMostMovesAtOnce = 16;

// The item's values, as the save of the checkpoint writes them.
StorePtr values_of_item(const std::string& directory) {
  return OutputFolder::at(normal_path(directory), {}).files(Durability::kSynced);
}

void move_value(KvStore& store, const std::string& from, const std::string& to) {
  copy_value(store, {.key = from}, to);
  store.remove(from);
}

// Moves values to other keys, several at once.
using Moves = std::vector<std::pair<std::string, std::string>>;
void move_values(KvStore& store, const Moves& moves) {
  Executor(std::clamp<std::size_t>(moves.size(), 1, kMostMovesAtOnce))
      .for_each(moves.size(),
                [&](std::size_t i) { move_value(store, moves[i].first, moves[i].second); });
}

// Moves a file of JSON. If the target exists, it gets what both have.
void place_json(KvStore& store, const std::string& from, const std::string& to, JoinFn joined) {
  const auto before = store.read_at_most(to, kMaxMetadataFile);
  if (!before) return move_value(store, from, to);
  const auto added = store.read_at_most(from, kMaxMetadataFile);
  if (!added) throw Error(Code::kNotFound, store.describe(from) + ": has been removed");
  const std::string text = to_text(joined(leaf_file_object(as_text(*before), store.describe(to)),
                                          leaf_file_object(as_text(*added), store.describe(from))),
                                   JsonStyle::kPython);
  if (!store.replace_if(to, ByteView(*before), as_bytes(text)))
    throw Error(Code::kUnavailable, store.describe(to) + ": has been replaced meanwhile");
  store.remove(from);
}

}  // namespace

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

JsonObject join_array_metadatas(const JsonObject& first, const JsonObject& second) {
  JsonArray records;
  for (const JsonObject* part : {&first, &second})
    for (const auto& [key, value] : *part)
      if (const JsonArray* some = value.as_array(); some != nullptr && key == kArrayMetadataFolder)
        records.insert(records.end(), some->begin(), some->end());
  return {{std::string(kArrayMetadataFolder), std::move(records)}};
}

JsonObject leaf_file_object(std::string_view text, const std::string& file) {
  return with_context([&] { return file; },
                      [&] {
                        const Json json = parse_json(text);
                        if (const JsonObject* members = json.as_object()) return *members;
                        throw Error(Code::kDataLoss,
                                    "expected an object, found " + std::string(json.type_text()));
                      });
}

std::string leaf_folder_in_store(const std::string& directory, bool use_ocdbt) {
  static std::atomic<std::uint64_t> next{0};
  const StorePtr values = values_of_item(directory);
  for (;;) {
    const std::string name =
        std::string(use_ocdbt ? kLeafDatabase : kLeafFolder) + std::to_string(next++);
    if (values->list_values(name + "/", 1).values.empty()) return join(directory, name);
  }
}

void place_leaf_folder_in_store(const std::string& folder, const std::string& directory) {
  const StorePtr values = values_of_item(directory);
  const std::string prefix = std::string(name_of(normal_path(folder))) + "/";
  const std::vector<ListEntry> entries = values->list(prefix);
  const bool is_database = std::ranges::any_of(entries, [&](const ListEntry& entry) {
    return entry.key == prefix + std::string(kManifestFile);
  });
  Moves moves;
  for (const ListEntry& entry : entries) {
    const std::string name = entry.key.substr(prefix.size());
    if (name == kTreeMetadataFile)
      values->remove(entry.key);  // of these leaves only; that of the item has them all
    else if (name.starts_with(std::string(kArrayMetadataFolder) + "/"))
      place_json(*values, entry.key, name, join_array_metadatas);
    else if (name.find('/') != std::string::npos && !is_database)
      moves.emplace_back(entry.key, name);
    else if (name.find('/') == std::string::npos && name != kManifestFile)
      place_json(*values, entry.key, name, join_members);
  }
  move_values(*values, moves);
}

void place_shared_leaf_folders_in_store(const std::string& directory) {
  const StorePtr values = values_of_item(directory);
  for (const std::string& folder : values->list_level(kLeafFolder).folders) {
    const std::string_view id =
        std::string_view(folder).substr(kLeafFolder.size(), folder.size() - kLeafFolder.size() - 1);
    const std::string prefix = std::string(kLeafDatabase) + std::string(id) + "x";
    const std::string databases = folder + std::string(kProcessPrefix);
    Moves moves;
    for (const ListEntry& entry : values->list(databases))
      moves.emplace_back(entry.key, prefix + entry.key.substr(databases.size()));
    move_values(*values, moves);
    place_leaf_folder_in_store(join(directory, folder), directory);
  }
}

}  // namespace cairn::inline v0::orbax
