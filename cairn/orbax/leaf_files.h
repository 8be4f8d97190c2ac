// leaf_files.h -- leaves that are saved apart from the rest of their item: the names of their
// folders, how files of JSON that both have become one, and where that happens in a store.
#pragma once

#include <cairn/base/json/json.h>

#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {

inline constexpr std::string_view kLeafFolder = "cairn.tmp_";
// Followed by letters and digits: Orbax before 0.12.1 merges the database of the process whose id
// comes after the last underscore.
inline constexpr std::string_view kLeafDatabase = "ocdbt.process_cairn";

using JoinFn = JsonObject (*)(const JsonObject& first, const JsonObject& second);

// The members of both; of equal keys, the value of the second in the place of the first.
JsonObject join_members(const JsonObject& first, const JsonObject& second);
// The records of both, of files in array_metadatas.
JsonObject join_array_metadatas(const JsonObject& first, const JsonObject& second);
// The object in the text of a file. Throws data_loss, which names the file, for anything else.
JsonObject leaf_file_object(std::string_view text, const std::string& file);

// As make_leaf_folder() and place_leaf_folder(), for URLs. A store has no folder to make: the name
// is one that no other call in this process has returned. What has to move is copied and removed.
std::string leaf_folder_in_store(const std::string& directory, bool use_ocdbt);
void place_leaf_folder_in_store(const std::string& folder, const std::string& directory);
// As place_shared_leaf_folders(), for URLs.
void place_shared_leaf_folders_in_store(const std::string& directory);

}  // namespace cairn::inline v0::orbax
