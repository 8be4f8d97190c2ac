// step_metadata.h -- what a checkpoint records about itself, without its values. Orbax's
// StepMetadata.
#pragma once

#include <cairn/step_policies.h>
#include <cairn/storage/store_options.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// The metadata of a checkpoint: of a step of a manager, or of one at a path of its own.
struct StepMetadata {
  // Nanoseconds since 1970: when the save began, and when it was committed. None if the checkpoint
  // does not record it, as those of old versions.
  std::optional<std::int64_t> init_timestamp_ns = {};
  std::optional<std::int64_t> commit_timestamp_ns = {};
  // The name of the handler by the name of the item; by "" for a checkpoint that is one tree.
  // A handler is "" if its item is recorded without one.
  std::map<std::string, std::string> item_handlers = {};
  // The names of the items that are there, sorted; none for a checkpoint that is one tree.
  // PyTreeCheckpointHandler::metadata() describes the leaves of a tree.
  std::vector<std::string> items = {};
  // The metrics of the item "metrics" or, without it, those in the checkpoint's metadata. Members
  // that are not numbers are left out.
  std::optional<Metrics> metrics = {};
  std::string custom_metadata = {};  // a JSON object; "" for none or an empty one
};
// Reads the metadata of the checkpoint at `path`. Members that are not recorded stay empty. Throws
// not_found if the path is missing, invalid_argument if it is a file or a directory of steps,
// data_loss if the metadata is damaged.
StepMetadata read_step_metadata(const std::string& path, const StoreOptions& store = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
