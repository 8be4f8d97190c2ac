// checkpoint_transaction.h -- creates and commits a checkpoint that several processes write
// together. The primary makes the directory before any process writes, and gives it its final name
// after all processes have written. A single process runs the same steps without waiting.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/orbax/save/save.h>

#include <functional>
#include <optional>
#include <string>

namespace cairn::inline v0::orbax {

// The directory of one checkpoint, shared by all processes of a group.
class CheckpointTransaction {
 public:
  // Returns when the directory exists. Throws the errors of PendingCheckpoint. Throws
  // invalid_argument if the processes do not save to the same path.
  CheckpointTransaction(const std::string& path, const SaveOptions& options,
                        const std::string& custom_metadata, distributed::ProcessGroup group);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  // The primary calls `finalize` and then commits. Returns in all processes when the checkpoint is
  // in place. An error says "in place" if the checkpoint already has its final name.
  void commit(const std::function<void()>& finalize);
  // Call it in all processes after an error. If all processes reach this call, none of them writes
  // any more, and the primary removes the directory unless it is already in place. A single process
  // does nothing here: the destructor removes the directory.
  void give_up();

 private:
  distributed::ProcessGroup group_;
  std::optional<PendingCheckpoint> pending_;  // set only in the primary
  std::string folder_;
};

}  // namespace cairn::inline v0::orbax
