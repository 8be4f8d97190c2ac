// checkpoint_state.h -- the file `checkpoint`, in which TensorFlow keeps which checkpoints a folder
// has and which is the latest: a CheckpointState in protobuf's text format.
//
//   model_checkpoint_path: "ckpt-30"
//   all_model_checkpoint_paths: "ckpt-20"
//   all_model_checkpoint_paths: "ckpt-30"
//   all_model_checkpoint_timestamps: 1795203500.686128      for each path, or none of them
//   last_preserved_timestamp: 1795203100.1
#pragma once

#include <cairn/error.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn {

inline constexpr std::string_view kCheckpointStateFile = "checkpoint";

struct CheckpointState {
  // Prefixes, relative to the file's folder or absolute; UTF-8. "" if the file names none.
  std::string model_checkpoint_path;
  std::vector<std::string> all_model_checkpoint_paths = {};  // the oldest first
  std::vector<double> all_model_checkpoint_timestamps = {};  // seconds since 1970
  double last_preserved_timestamp = 0;
  bool operator==(const CheckpointState&) const = default;
};

// Fields that are not known are passed over. data_loss, naming the line, for what is no such text.
Result<CheckpointState> parse_checkpoint_state(std::string_view text);
// Byte for byte what TensorFlow writes. Throws invalid_argument for paths that are not UTF-8, which
// it could not read.
std::string encode_checkpoint_state(const CheckpointState& state);

// Of the file at `path`; not_found if there is none, data_loss if it cannot be read as one.
Result<CheckpointState> read_checkpoint_state(const std::string& path);
// The file appears, or is replaced, in one step.
void write_checkpoint_state(const std::string& path, const CheckpointState& state);

// Where a prefix of a state in `folder` is.
std::string resolve_checkpoint_path(std::string_view folder, std::string_view path);
// The state after `path` was saved: the latest and the last one of the list, in which it is once.
// Timestamps are kept up where all paths have one.
CheckpointState with_latest(CheckpointState state, const std::string& path, double timestamp);

}  // namespace cairn
