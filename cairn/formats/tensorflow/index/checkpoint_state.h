// checkpoint_state.h -- the file `checkpoint`. In it TensorFlow records which checkpoints a folder
// has and which one is the latest: a CheckpointState in protobuf's text format.
//
//   model_checkpoint_path: "ckpt-30"
//   all_model_checkpoint_paths: "ckpt-20"
//   all_model_checkpoint_paths: "ckpt-30"
//   all_model_checkpoint_timestamps: 1795203500.686128      one for each path, or none at all
//   last_preserved_timestamp: 1795203100.1
#pragma once

#include <cairn/error.h>
#include <cairn/io/tree/file_tree.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

inline constexpr std::string_view kCheckpointStateFile = "checkpoint";

// The fields of the message.
struct CheckpointState {
  // Prefixes, relative to the file's folder or absolute, in UTF-8. "" if the file names none.
  std::string model_checkpoint_path;
  std::vector<std::string> all_model_checkpoint_paths = {};  // the oldest first
  std::vector<double> all_model_checkpoint_timestamps = {};  // seconds since 1970
  double last_preserved_timestamp = 0;
  bool operator==(const CheckpointState&) const = default;
};

// Parses the text and skips unknown fields. Returns data_loss, naming the line, for malformed text.
Result<CheckpointState> parse_checkpoint_state(std::string_view text);
// Encodes the state, byte for byte as TensorFlow does. Throws invalid_argument for paths that are
// not UTF-8, because TensorFlow could not read them.
std::string encode_checkpoint_state(const CheckpointState& state);

// Reads the file at `path`. Returns not_found if it does not exist, and data_loss if it is not a
// valid state file.
Result<CheckpointState> read_checkpoint_state(const FileTree& tree, const std::string& path);
// Writes the file, or replaces it, in one atomic step.
void write_checkpoint_state(const std::string& path, const CheckpointState& state);

// Resolves a path of a state file in `folder`. In a store, a URL stays as it is.
std::string resolve_checkpoint_path(std::string_view folder, std::string_view path);
// The state after a save of `path`: the path becomes the latest and the last of the list, where it
// occurs once. Timestamps are updated if all paths have one.
CheckpointState with_latest(CheckpointState state, const std::string& path, double timestamp);

}  // namespace cairn::inline v0
