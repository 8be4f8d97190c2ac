// checkpointer.h -- Checkpointer and AsyncCheckpointer: a pytree as a checkpoint of its own, a
// directory that is complete or absent. What Orbax's classes of these names save with a
// PyTreeCheckpointHandler, these restore, and the other way round.
#pragma once

#include <cairn/orbax.h>
#include <cairn/pytree_checkpoint_handler.h>

#include <memory>
#include <string>

namespace cairn {

struct CheckpointerSaveOptions {
  // Whether a checkpoint that is there already gives way: it does so when the new one is whole, and
  // anything else never does.
  IfExists if_exists = IfExists::kFail;
  std::string custom_metadata;  // JSON object, kept with the checkpoint; "" for none
};

// Saves to <path>.orbax-checkpoint-tmp, which is synced and renamed. Errors are those of
// PyTreeCheckpointHandler, and: already_exists; failed_precondition for restoring what is
// unfinished.
//
// With other processes (the options' multiprocessing_options) all call save alike;
// docs/distributed.md tells the order. If one of them fails, all do, and what was written stays
// under the temporary name until the next save of that path, or `cairn clean`.
class Checkpointer {
 public:
  Checkpointer();
  explicit Checkpointer(PyTreeCheckpointHandlerOptions options);

  // Durable when it returns.
  void save(const std::string& path, const PyTreeSaveArgs& args,
            const CheckpointerSaveOptions& options = {});
  [[nodiscard]] Tree restore(const std::string& path, const PyTreeRestoreArgs& args = {}) const;
  [[nodiscard]] PyTreeMetadata metadata(const std::string& path) const;
  void close() { handler_.close(); }

 private:
  MultiprocessingOptions multiprocessing_;
  PyTreeCheckpointHandler handler_;
};

// Saves in the background: one at a time.
class AsyncCheckpointer {
 public:
  AsyncCheckpointer();
  explicit AsyncCheckpointer(PyTreeCheckpointHandlerOptions options);
  // Waits for a save that is under way; its error, if nobody has asked for it, is lost.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;
  AsyncCheckpointer& operator=(const AsyncCheckpointer&) = delete;

  // Waits for the save before, and throws what went wrong with it. Returns once everything that the
  // caller may change has been copied.
  void save(const std::string& path, const PyTreeSaveArgs& args,
            const CheckpointerSaveOptions& options = {});
  // Until the checkpoint is durable and has its name. Throws, once, what went wrong.
  void wait_until_finished();
  // Throws, once, what went wrong with a save that has ended; does not wait.
  void check_for_errors();
  // Waits for the save before.
  [[nodiscard]] Tree restore(const std::string& path, const PyTreeRestoreArgs& args = {});
  [[nodiscard]] PyTreeMetadata metadata(const std::string& path) const;
  // Waits. Nothing can be saved afterwards.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn
