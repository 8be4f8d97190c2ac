// item_kinds.h -- how Orbax's handlers store items: their names and their files.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace cairn::inline v0::orbax {

// The names of handlers that _CHECKPOINT_METADATA records.
inline constexpr std::string_view kPyTreeHandler =
    "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler";
inline constexpr std::string_view kV1PyTreeHandler =
    "orbax.checkpoint.experimental.v1._src.handlers.pytree_handler.PyTreeHandler";
inline constexpr std::string_view kStandardHandler =
    "orbax.checkpoint._src.handlers.standard_checkpoint_handler.StandardCheckpointHandler";
inline constexpr std::string_view kArrayHandler =
    "orbax.checkpoint._src.handlers.array_checkpoint_handler.ArrayCheckpointHandler";
inline constexpr std::string_view kJsonHandler =
    "orbax.checkpoint._src.handlers.json_checkpoint_handler.JsonCheckpointHandler";
inline constexpr std::string_view kProtoHandler =
    "orbax.checkpoint._src.handlers.proto_checkpoint_handler.ProtoCheckpointHandler";
inline constexpr std::string_view kJaxRandomKeyHandler =
    "orbax.checkpoint._src.handlers.random_key_checkpoint_handler.JaxRandomKeyCheckpointHandler";
inline constexpr std::string_view kNumpyRandomKeyHandler =
    "orbax.checkpoint._src.handlers.random_key_checkpoint_handler.NumpyRandomKeyCheckpointHandler";

inline constexpr std::string_view kArrayItemKey = "checkpoint";  // of the one leaf of the tree
inline constexpr std::string_view kJsonItemFile = "metadata";
inline constexpr std::string_view kV1JsonItemFile = "data.json";
inline constexpr std::string_view kProtoItemFile = "proto.pbtxt";
inline constexpr std::string_view kJaxRandomKeyFolder = "jax_random_key";
inline constexpr std::string_view kNumpyRandomKeyFolder = "np_random_key";

// Whether the handler writes files that nobody but itself knows: that of a data iterator, or of an
// object of the user's own.
inline bool is_foreign_handler(std::string_view handler) {
  return !handler.empty() && (!handler.starts_with("orbax.checkpoint.") ||
                              handler.ends_with(".StatefulCheckpointableHandler"));
}

// Whether the one handler of a whole checkpoint is a program's own, so that any file may belong to
// it. A wrapper of Orbax's is around such a handler.
inline bool owns_all_files(std::string_view handler) {
  return !handler.empty() &&
         (handler.find("Wrapper") != std::string_view::npos ||
          (!handler.starts_with("orbax.checkpoint.") && !handler.starts_with("cairn.orbax.")));
}

// Whether the handler writes one file, whose name a program may choose.
inline bool is_file_handler(std::string_view handler) {
  return handler.starts_with("orbax.checkpoint.") && (handler.ends_with(".JsonCheckpointHandler") ||
                                                      handler.ends_with(".ProtoCheckpointHandler"));
}

inline bool is_random_key_handler(std::string_view handler) {
  return handler.starts_with("orbax.checkpoint.") &&
         handler.ends_with("RandomKeyCheckpointHandler");
}

// Whether the handler saves a pytree with its own `_METADATA` in the item's folder.
inline bool is_tree_handler(std::string_view handler) {
  handler.remove_prefix(std::min(handler.size(), handler.rfind('.') + 1));
  return handler.ends_with("PyTreeCheckpointHandler") ||
         handler.ends_with("StandardCheckpointHandler") || handler.ends_with("PyTreeHandler");
}

// The names that handlers of different ages gave to the file of the JSON item `item`.
inline std::array<std::string_view, 3> json_item_files(std::string_view item) {
  return {kJsonItemFile, kV1JsonItemFile, item};
}

// Whether a file of the item `item` holds JSON, by its name.
inline bool is_json_file(std::string_view name, std::string_view item) {
  return name == kJsonItemFile || name == item || name.ends_with(".json");
}

}  // namespace cairn::inline v0::orbax
