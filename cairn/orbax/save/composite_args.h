// composite_args.h -- what a checkpoint of several items is made of.
#pragma once

#include <cairn/pytree_checkpoint_handler.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {

// Orbax's name for the handler of JSON items.
inline constexpr std::string_view kJsonHandler =
    "orbax.checkpoint._src.handlers.json_checkpoint_handler.JsonCheckpointHandler";

// A JSON item: a folder with one file.
struct JsonFile {
  std::string item;
  std::string name;  // of the file
  std::string text;
};

// The items of a checkpoint that PyTreeCheckpointHandler saves together.
struct CompositeArgs {
  // Pairs of name and tree. The trees must outlive the start of the save.
  std::vector<std::pair<std::string, const PyTreeSaveArgs*>> trees = {};
  std::vector<JsonFile> json = {};
  std::string custom_metadata = {};  // a JSON object; "" for none
  IfExists if_exists = IfExists::kFail;
  std::string reuse_from = {};  // an earlier checkpoint of such items; "" for none
};

}  // namespace cairn::inline v0::orbax
