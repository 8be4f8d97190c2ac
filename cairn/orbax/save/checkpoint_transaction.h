// checkpoint_transaction.h -- a checkpoint that several processes make together: the primary makes
// the directory before any of them writes, and gives it its name after all have written. A process
// that is alone does the same without waiting for anybody.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/orbax/save/save.h>

#include <functional>
#include <optional>
#include <string>

namespace cairn::orbax {

class CheckpointTransaction {
 public:
  // Once the directory is there. Throws as PendingCheckpoint; invalid_argument if the processes do
  // not mean the same checkpoint.
  CheckpointTransaction(const std::string& path, const SaveOptions& options,
                        const std::string& custom_metadata, distributed::ProcessGroup group);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  // `finalize` is called by the primary, before it commits. Once the checkpoint is in place.
  void commit(const std::function<void()>& finalize);
  // Behind an error, in all processes. If all come here nobody is writing any more, and the
  // directory goes, unless it is in place.
  void give_up();

 private:
  distributed::ProcessGroup group_;
  std::optional<PendingCheckpoint> pending_;  // the primary's
  std::string folder_;
};

}  // namespace cairn::orbax
