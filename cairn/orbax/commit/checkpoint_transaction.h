// checkpoint_transaction.h -- creates and commits a checkpoint that several processes write
// together. The primary makes the directory before any process writes, and gives it its final name
// after all processes have written. A single process runs the same steps without waiting.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/io/directory.h>
#include <cairn/orbax/commit/pending_checkpoint.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace cairn::inline v0::orbax {

// The directory of one checkpoint, shared by all processes of a group.
class CheckpointTransaction {
 public:
  // Returns when the directory exists. Throws the errors of PendingCheckpoint. Throws
  // invalid_argument if the processes do not save to the same path.
  CheckpointTransaction(const std::string& path, const SaveOptions& options,
                        const CheckpointContent& content, distributed::ProcessGroup group);

  [[nodiscard]] const OutputFolder& folder() const { return folder_; }
  // The primary calls `finalize` and then commits. Returns in all processes when the checkpoint is
  // in place. An error says "in place" if the checkpoint already has its final name. `synced` as in
  // sync_tree().
  void commit(const std::function<void()>& finalize, SyncedFiles* synced);
  // Call it in all processes after an error. If all processes reach this call, none of them writes
  // any more, and the primary removes the directory unless it is already in place. A single process
  // does nothing here: end() removes the directory.
  void give_up();
  // Call it after an error. Whether another save has taken the place meanwhile.
  [[nodiscard]] bool is_taken() { return pending_ && pending_->is_taken(); }
  // As the destructor: no lock is held any more, and a directory that is not committed is removed,
  // unless other processes may still write to it.
  void end() { pending_.reset(); }

 private:
  distributed::ProcessGroup group_;
  std::optional<PendingCheckpoint> pending_;  // set only in the primary
  OutputFolder folder_;
};

// One save: where it goes, and the steps that differ between its callers.
struct CheckpointSave {
  std::string path;
  SaveOptions options;        // of the directory: item, v1, if_exists, durability
  CheckpointContent content;  // what the checkpoint records beside its trees
  distributed::ProcessGroup group;
  // Does what must be done before the caller continues. Returns the rest, which writes the item to
  // `folder`.
  std::function<std::function<void()>(const OutputFolder& folder)> prepare;
  // Completes the item (or all items) in `folder`, in the primary, after all processes have written
  // it.
  std::function<void(const OutputFolder& folder)> finalize;
  // After an error, wait for all processes and remove the directory (give_up).
  bool gives_up = false;
  // Files that need no sync, as in sync_tree(); null: all are synced.
  std::shared_ptr<SyncedFiles> synced = {};
};

// Does what comes before start_save(). An error fails the first step of the save, in which the
// other processes wait.
void before_save(const distributed::ProcessGroup& group, const std::function<void()>& work);

// The way of every save: makes the directory and calls `prepare`. Returns the rest of the save,
// which writes the item, finalizes it and commits the checkpoint; call it once, in any thread. If
// it is never called, the checkpoint never appears.
[[nodiscard]] std::function<void()> start_save(CheckpointSave save);

}  // namespace cairn::inline v0::orbax
