// metadata.h -- parses and writes the small JSON files that an Orbax checkpoint stores beside its
// arrays.
//
//   _CHECKPOINT_METADATA        {"item_handlers": null | "..." | {"item": "..."},
//                               "init_timestamp_nsecs": n,
//                                "commit_timestamp_nsecs": n | null, "custom_metadata": {},
//                                "metrics": {}, ...}
//   metadata/_ROOT_METADATA     {"internal_metadata": {}, "custom_metadata": {}}
//   array_metadatas/process_<i> {"array_metadatas": [{"array_metadata": {"param_name": "a",
//   "write_shape": [4],
//                                "chunk_shape": [4], "ext_metadata": null | {"random_key_impl":
//                                "threefry2x32"}}}]}
//   _sharding                   {"<URL-safe base64 of the parameter name>": "<JSON text>"}
//   _strings.json               {"<parameter name>": "<text>"}, stored at the JSON pointer "/" +
//                               name: a '/' in the name nests
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {

// All parse functions throw data_loss if the text does not have the expected form.

// The content of `_CHECKPOINT_METADATA`.
struct CheckpointMetadata {
  // Pairs of item name and handler name. A direct checkpoint has one pair, with the item name "".
  std::vector<std::pair<std::string, std::string>> item_handlers;
  std::optional<std::int64_t> init_time_ns;
  std::optional<std::int64_t> commit_time_ns;
  Json metrics;
  Json performance_metrics;
  Json custom_metadata;
};
// The time for init_time_ns and commit_time_ns: nanoseconds since 1970.
std::int64_t now_ns();
// Parses the text of `_CHECKPOINT_METADATA`.
CheckpointMetadata parse_checkpoint_metadata(std::string_view json);
// Reads and parses the file. Throws not_found if the file does not exist.
CheckpointMetadata read_checkpoint_metadata(const std::string& file);
CheckpointMetadata read_checkpoint_metadata(const FolderHandle& folder, const std::string& file);

// Whether a save has started and nothing says that it has ended.
bool is_unfinished(const CheckpointMetadata& metadata);

// Returns the custom_metadata of a root, or null if the root has none. Members of other names, as
// in the legacy form, are custom metadata too. Throws data_loss where Orbax refuses the text.
Json parse_root_metadata(std::string_view json);

// One entry of an array_metadatas file: how one array is divided into write pieces and chunks.
struct StoredArrayMetadata {
  std::string name;
  Shape write_shape;
  Shape chunk_shape;
  std::string random_key_impl;  // the implementation of a typed PRNG key; otherwise ""
  bool operator==(const StoredArrayMetadata&) const = default;
};
// Parses one file of array_metadatas.
std::vector<StoredArrayMetadata> parse_array_metadatas(std::string_view json);

// Parses `_sharding`. Returns pairs of parameter name and sharding (JSON text), in file order.
std::vector<std::pair<std::string, std::string>> parse_shardings(std::string_view json);
// Whether a parameter name is that of a string leaf.
using IsStringLeaf = std::function<bool(const std::string& name)>;
// Parses `_strings.json`. Returns a map from parameter name to string. A value that is not a string
// is returned as Python's str() of that value. The members of an object are strings of their own
// ("a/b"); the object itself is one if `is_leaf` says so. Null: none is.
std::unordered_map<std::string, std::string> parse_strings(std::string_view json,
                                                           const IsStringLeaf& is_leaf = {});

// ---- writing: the functions return the text that Orbax writes ----

// Returns the text of `_CHECKPOINT_METADATA`.
std::string checkpoint_metadata_text(const CheckpointMetadata& metadata);
// The same with handlers and custom metadata that are JSON already. They stay byte for byte.
std::string checkpoint_metadata_text(const CheckpointMetadata& metadata,
                                     std::string_view item_handlers,
                                     std::string_view custom_metadata);
// Returns the text that says that the save of this record has not ended. nullopt: it says so
// already. An error stands for a record that cannot be read.
std::optional<std::string> uncommitted_text(const Result<CheckpointMetadata>& metadata);
// Returns the text of one file of array_metadatas.
std::string array_metadatas_text(const std::vector<StoredArrayMetadata>& arrays);
// Returns the text of `_sharding` for pairs of parameter name and sharding (JSON text).
std::string shardings_text(const std::vector<std::pair<std::string, std::string>>& shardings);
// Returns the text of `_strings.json`. Throws invalid_argument for names that Orbax's JSON pointers
// cannot hold: a name with a '~' that is not followed by '0' or '1', or a name that is a prefix of
// another name up to a '/' ("a" and "a/b").
std::string strings_text(const std::vector<std::pair<std::string_view, std::string_view>>& strings);

// Parses the JSON that a caller gives as metadata. Throws invalid_argument for any other text; the
// error names it as `what`.
Json given_json(const std::string& text, std::string_view what);
// As given_json, for a JSON object. Throws invalid_argument for any other JSON, too.
Json given_object(const std::string& text, std::string_view what);

}  // namespace cairn::inline v0::orbax
