// metadata.h -- the small JSON files beside the arrays of an Orbax checkpoint.
//
//   _CHECKPOINT_METADATA        {"item_handlers": null | "..." | {"item": "..."},
//   "init_timestamp_nsecs": n,
//                                "commit_timestamp_nsecs": n | null, "custom_metadata": {},
//                                "metrics": {}, ...}
//   metadata/_ROOT_METADATA     {"internal_metadata": {}, "custom_metadata": {}}
//   array_metadatas/process_<i> {"array_metadatas": [{"array_metadata": {"param_name": "a",
//   "write_shape": [4],
//                                "chunk_shape": [4], "ext_metadata": null | {"random_key_impl":
//                                "threefry2x32"}}}]}
//   _sharding                   {"<URL-safe base64 of the parameter name>": "<JSON text>"}
//   _strings.json               {"<parameter name>": "<text>"}, stored at the JSON pointer "/" +
//   name: a '/' in the name nests
#pragma once

#include <cairn/base/json.h>
#include <cairn/io/folder_handle.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::orbax {

// All parse functions throw data_loss for text that is not what it should be.

struct CheckpointMetadata {
  // of a direct checkpoint: one, for item ""
  std::vector<std::pair<std::string, std::string>> item_handlers;
  std::optional<std::int64_t> init_time_ns;
  std::optional<std::int64_t> commit_time_ns;
  Json metrics;
  Json custom_metadata;
};
CheckpointMetadata parse_checkpoint_metadata(std::string_view json);
// not_found if it is not there
CheckpointMetadata read_checkpoint_metadata(const std::string& file);
CheckpointMetadata read_checkpoint_metadata(const FolderHandle& folder, const std::string& file);

// The custom_metadata of a root, null if there is none. Also for the legacy spelling, where the
// whole object is it.
Json parse_root_metadata(std::string_view json);

struct StoredArrayMetadata {
  std::string name;
  Shape write_shape;
  Shape chunk_shape;
  std::string random_key_impl;  // of a typed PRNG key; else ""
  bool operator==(const StoredArrayMetadata&) const = default;
};
std::vector<StoredArrayMetadata> parse_array_metadatas(std::string_view json);

// Parameter names and the JSON texts of their shardings, in the order of the file.
std::vector<std::pair<std::string, std::string>> parse_shardings(std::string_view json);
// Parameter name to its string. Values that are no strings come as Python's str() of them.
std::unordered_map<std::string, std::string> parse_strings(std::string_view json);

// ---- the same files as Orbax writes them ----

std::string checkpoint_metadata_text(const CheckpointMetadata& metadata);
std::string array_metadatas_text(const std::vector<StoredArrayMetadata>& arrays);
// Names with the JSON texts of their shardings.
std::string shardings_text(const std::vector<std::pair<std::string, std::string>>& shardings);
// Throws invalid_argument for names that Orbax's JSON pointers cannot hold: a '~' that no '0' or
// '1' follows, or a name that is a prefix of another one up to a '/'.
std::string strings_text(const std::vector<std::pair<std::string, std::string>>& strings);

}  // namespace cairn::orbax
