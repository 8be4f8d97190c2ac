// checkpointer.h -- Checkpointer and AsyncCheckpointer save and restore a pytree as a checkpoint of
// its own: a directory that is complete or absent. They are interchangeable with Orbax's classes of
// the same names with a PyTreeCheckpointHandler: each restores what the other saves.
#pragma once

#include <cairn/options.h>
#include <cairn/orbax/checkpoint_items.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Options of a save.
struct CheckpointerSaveOptions {
  // What to do if the path exists. kReplace: an older checkpoint is replaced once the new one is
  // complete; anything else is never replaced.
  IfExists if_exists = IfExists::kFail;
  std::string custom_metadata = {};  // JSON object, stored with the checkpoint; "" for none
  // None: the tree itself is the checkpoint. A name: the tree is this item of a composite
  // checkpoint, in the folder <path>/<item>, where restore() finds it. A step of a
  // CheckpointManager has the item "default". Refused as in SaveOptions.
  std::optional<std::string> item = {};
  // As SaveOptions::v1, for one tree.
  bool v1 = false;
  // As SaveOptions::progress, for all items together. AsyncCheckpointer: called until everything is
  // written, also after save() has returned. With several processes, each counts what it writes.
  ProgressFn progress = {};
  // As SaveOptions::cancel. AsyncCheckpointer: wait_until_finished() throws cancelled.
  std::stop_token cancel = {};
};

// Saves to <path>.orbax-checkpoint-tmp, syncs it and renames it, or as the handler's option
// commit_protocol says. Throws as PyTreeCheckpointHandler;
// save also already_exists; restore and metadata also not_found if the path is missing,
// invalid_argument if it is a file, and failed_precondition for an unfinished checkpoint.
//
// With several processes (multiprocessing_options), all processes must call save with the same
// arguments; docs/guides/distributed.md gives the order of steps. An error in one process fails all
// of them. The data written so far keeps the temporary name until the next save to that path or
// `cairn clean`.
class Checkpointer {
 public:
  Checkpointer();
  explicit Checkpointer(PyTreeCheckpointHandlerOptions options);

  // Saves the tree. The checkpoint is durable when the call returns, unless the handler's option
  // durability is kUnsynced.
  void save(const std::string& path, const PyTreeSaveArgs& args,
            const CheckpointerSaveOptions& options = {});
  // Saves several items. options.item must not be given.
  void save_items(const std::string& path, const CheckpointItems& items,
                  const CheckpointerSaveOptions& options = {});
  // Restores the tree (PyTreeCheckpointHandler::restore).
  [[nodiscard]] Tree restore(const std::string& path, const PyTreeRestoreArgs& args = {}) const;
  // Restores the items that are named, or all. Throws not_found for an item that is not there,
  // unimplemented for one that neither Cairn nor a reader can read, invalid_argument if the
  // checkpoint is one tree, data_loss for an item that it records and lacks, if that one or all are
  // wanted. An error of a reader is passed on.
  [[nodiscard]] RestoredItems restore_items(const std::string& path,
                                            const ItemRequests& requests = {},
                                            const FilesReaders& readers = {}) const;
  // Metadata of the tree, without values.
  [[nodiscard]] PyTreeMetadata metadata(const std::string& path) const;
  // Nothing can be saved afterwards.
  void close() { handler_.close(); }

 private:
  friend class AsyncCheckpointer;
  CommitProtocol commit_protocol_;
  bool allow_legacy_atomic_rename_;
  StoreOptions store_;
  PyTreeCheckpointHandler handler_;
};

// Saves in the background, one save at a time. Throws as Checkpointer.
class AsyncCheckpointer {
 public:
  AsyncCheckpointer();
  explicit AsyncCheckpointer(PyTreeCheckpointHandlerOptions options);
  // Waits for a running save. An error that nobody has asked for reaches only the observer.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;
  AsyncCheckpointer& operator=(const AsyncCheckpointer&) = delete;

  // Waits for the previous save and throws its error. Returns once everything that the caller may
  // change is copied.
  void save(const std::string& path, const PyTreeSaveArgs& args,
            const CheckpointerSaveOptions& options = {});
  void save_items(const std::string& path, const CheckpointItems& items,
                  const CheckpointerSaveOptions& options = {});
  // Waits until the checkpoint is durable and has its name. Throws the error of the save, once.
  void wait_until_finished();
  // Throws the error of a finished save, once. Does not wait.
  void check_for_errors();
  // Whether a save runs in the background.
  [[nodiscard]] bool is_saving_in_progress() const;
  // Waits for the previous save, then restores.
  [[nodiscard]] Tree restore(const std::string& path, const PyTreeRestoreArgs& args = {});
  [[nodiscard]] RestoredItems restore_items(const std::string& path,
                                            const ItemRequests& requests = {},
                                            const FilesReaders& readers = {});
  // Metadata of the tree, without values. Does not wait.
  [[nodiscard]] PyTreeMetadata metadata(const std::string& path) const;
  // Waits for a running save. Nothing can be saved afterwards.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
