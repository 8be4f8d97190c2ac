// checkpoint_manager.h -- the checkpoints of a training run: a directory of steps, of which the
// manager saves, keeps and removes those that its options ask for. Orbax's CheckpointManager and
// this class continue each other's directories.
#pragma once

#include <cairn/orbax/checkpoint_items.h>
#include <cairn/orbax/pytree_args.h>
#include <cairn/orbax/step_metadata.h>
#include <cairn/step_policies.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

class KvStore;     // cairn/storage/kvstore.h
class StepFormat;  // made by distributed_checkpoint_steps() of cairn/steps.h

// The names of the directories of steps.
struct StepNameFormat {
  StepNameFormat() = default;  // 12
  explicit StepNameFormat(std::string before, std::size_t least_digits = 0)
      : prefix(std::move(before)), digits(least_digits) {}

  std::string prefix;           // "step": step_12; "": 12
  std::size_t digits = 0;       // at least this many, with leading zeros: 8: step_00000012
  std::string separator = "_";  // between the prefix and the digits; "-": step-12
  // Names of your own, as epoch=12: both functions or neither. They take the place of the prefix,
  // the separator and the digits. `parse` gets the names of all directories, also of those that are
  // not steps.
  std::function<std::string(std::int64_t step)> name = {};
  std::function<std::optional<std::int64_t>(std::string_view name)> parse = {};
};
// The name of a step's directory. Throws invalid_argument for a negative step, for a prefix that
// cannot be part of a name, for a name that cannot be that of a directory or that `parse` does not
// turn back into the step, and for a format with only one of the two functions.
std::string step_name(std::int64_t step, const StepNameFormat& format = {});
// The step of a directory's name; nullopt if the format gives no step this name.
std::optional<std::int64_t> parse_step_name(std::string_view name,
                                            const StepNameFormat& format = {});

// A folder with the name of a step.
struct StepFolder {
  std::int64_t step = 0;
  std::string name;
};
// The folders of a directory that count as steps for Orbax, in ascending order: those with the name
// of a step; with kCommitMarker and its marker, or with `allow_legacy_atomic_rename` not
// unfinished. A symbolic link to a directory counts, too. A step may lack files:
// CheckpointManager::all_steps() has the complete ones. Reads names only. Throws not_found if the
// directory is missing. In a store, only steps with the marker count. Elsewhere
// than on gs:// a step without it counts, too, if nothing says that it is unfinished.
std::vector<StepFolder> list_step_folders(const std::string& directory,
                                          const StepNameFormat& format = {},
                                          CommitProtocol protocol = CommitProtocol::kAtomicRename,
                                          bool allow_legacy_atomic_rename = false,
                                          const StoreOptions& store = {});

// Options of CheckpointManager. The default saves and keeps every step.
struct CheckpointManagerOptions {
  // ---- which steps are saved ----
  std::int64_t save_interval_steps = 1;  // multiples of it, the first step, and save_on_steps
  std::set<std::int64_t> save_on_steps = {};
  // Replaces both, and decides alone, as in Orbax: the step at which the process is to end is saved
  // only if save_policy::preemption() is among the policies.
  SavePolicy save_policy = {};
  // Called with each call of save() and should_save(). Returns whether the process is to end.
  // Without a save_policy, such a step is saved. Null: never.
  std::function<bool(std::int64_t step)> is_preempted = {};

  // ---- which steps are kept ----
  std::optional<std::size_t> max_to_keep = {};   // the last ones, or the best; none: all
  std::optional<std::int64_t> keep_period = {};  // also multiples of it
  std::optional<std::chrono::nanoseconds> keep_time_interval = {};  // also one in each interval
  KeepPolicy keep_policy = {};  // excludes the three above; no `select`: none
  // If it is given, save() stores metrics, and best_step() and max_to_keep use them.
  MetricFn best_fn = {};
  BestMode best_mode = BestMode::kMax;
  bool keep_checkpoints_without_metrics = true;  // not counted in max_to_keep
  bool prevent_write_metrics = false;            // do not store them; for the policies only

  // ---- the directory ----
  StepNameFormat step_name_format = StepNameFormat();
  bool create = true;      // make the directory if it is missing
  bool read_only = false;  // nothing is saved, removed or made
  // Remove the leftovers of interrupted saves of steps. The observer learns of those that stay,
  // because a save is in progress or foreign files are there.
  bool cleanup_tmp_directories = false;
  // A separate thread removes steps: remove() and saves of other steps do not wait. A removal waits
  // for the one before, and with several processes a save does, too.
  bool enable_background_delete = false;
  // Removed steps are moved to this directory below the root; none: they are removed.
  std::optional<std::string> todelete_subdir = {};
  // A JSON object that describes the run; "" for none. Stored in metadata/_ROOT_METADATA, unless
  // that file is there. A read-only manager does not store it, but root_metadata() returns it.
  std::string root_metadata = {};

  bool enable_async_checkpointing = true;       // save() returns before the step is written
  PyTreeCheckpointHandlerOptions handler = {};  // how trees are saved and restored
  // How the tree of a step is stored. Null: as Orbax stores it. Other formats hold one tree a step;
  // it is restored as it is stored. Options of `handler` that the format does not have are
  // invalid_argument.
  std::shared_ptr<const StepFormat> step_format = {};
};

// Options of a save of one step.
struct StepSaveOptions {
  std::optional<Metrics> metrics = {};  // stored if the manager has best_fn
  bool force = false;                   // save although the policy says no
  std::string custom_metadata = {};     // a JSON object, stored with the step; "" for none
  ProgressFn progress = {};             // as CheckpointerSaveOptions::progress
  // As SaveOptions::cancel. The steps that the save would have replaced are kept.
  std::stop_token cancel = {};
};

// A folder with the name of a step that is not a complete checkpoint: files are missing that its
// records name, or it holds no checkpoint.
struct IncompleteStep {
  std::int64_t step = 0;
  std::string path;
  std::string reason;
};

// Saves and restores the steps of one directory. Only complete steps count: a step that was copied
// in part is neither the latest nor removed, and a save of the same step replaces it. A step is not
// removed while a symbolic link in the directory, or in a step that stays, leads to it.
//
// One thread uses a manager at a time. Meanwhile, other threads may call directory(), all_steps(),
// incomplete_steps(), latest_step(), metrics(), metadata(), root_metadata(), reached_preemption()
// and is_saving_in_progress(). A save goes on in a thread of its own. No older step is removed
// before the new one is durable. A directory that holds anything besides a checkpoint is never
// removed.
//
// The next call of save(), remove(), restore(), check_for_errors(), wait_until_finished() or
// close() throws the error of a save or removal in the background, once. The observer also receives
// the error of a save. The manager then lists the directory again.
//
// With several processes (options.handler.multiprocessing_options), each has a manager with the
// same options, and all call save(), remove() and the constructor together. A step is saved if any
// of them wants it; the primary process decides which steps are kept. An error in one process fails
// all.
class CheckpointManager {
 public:
  // Throws invalid_argument for options that exclude each other, not_found if the directory is
  // missing and may not be made.
  explicit CheckpointManager(const std::string& directory, CheckpointManagerOptions options = {});
  // Waits for a running save.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  [[nodiscard]] const std::string& directory() const;  // absolute
  // The steps, in the order of their saves; after reload() in ascending order.
  [[nodiscard]] std::vector<std::int64_t> all_steps() const;
  // The folders that do not count, as they were when the directory was listed.
  [[nodiscard]] std::vector<IncompleteStep> incomplete_steps() const;
  // The step that was saved last, or none.
  [[nodiscard]] std::optional<std::int64_t> latest_step() const;
  // The best step by best_fn, of those that have metrics; without best_fn the latest.
  [[nodiscard]] std::optional<std::int64_t> best_step() const;
  // The metrics stored with a step; none if there are none, or no such step.
  [[nodiscard]] std::optional<Metrics> metrics(std::int64_t step) const;
  // The metadata that the step records about itself, as read_step_metadata(). Throws not_found for
  // an unknown step.
  [[nodiscard]] StepMetadata metadata(std::int64_t step) const;
  // The custom metadata of the run as JSON; "" for none.
  [[nodiscard]] std::string root_metadata() const;
  // Whether save() would save the step. With several processes: for this process's part.
  [[nodiscard]] bool should_save(std::int64_t step) const;
  // Whether is_preempted has returned true, in any of the processes, in a call of save() that has
  // returned. All processes get the same answer after the same save(), so all can end together.
  [[nodiscard]] bool reached_preemption() const;

  // Saves a tree as the step's item "default". Returns false if the policy does not want the step.
  // Waits for the save before. Throws already_exists for a step that is there, else as
  // Checkpointer.
  bool save(std::int64_t step, const PyTreeSaveArgs& tree, const StepSaveOptions& options = {});
  // Saves several items. The name "metrics" is reserved.
  bool save(std::int64_t step, const CheckpointItems& items, const StepSaveOptions& options = {});

  // Restores a tree of a step (none: the latest). Waits for a running save. Throws not_found if the
  // step or the item is missing, else as Checkpointer.
  [[nodiscard]] Tree restore(std::optional<std::int64_t> step = {},
                             const PyTreeRestoreArgs& args = {}, std::string_view item = "default");
  // Restores the items that are named, or all, as Checkpointer::restore_items().
  [[nodiscard]] RestoredItems restore_items(std::optional<std::int64_t> step = {},
                                            const ItemRequests& requests = {},
                                            const FilesReaders& readers = {});
  // The text of a JSON item.
  [[nodiscard]] std::string restore_json(std::optional<std::int64_t> step, std::string_view item);

  // Removes a step, also an incomplete one. Throws not_found for an unknown step,
  // failed_precondition if a symbolic link leads to it, already_exists for a directory that holds
  // anything besides a checkpoint; with enable_background_delete, the next call throws that. Does
  // nothing if the manager is read-only.
  void remove(std::int64_t step);
  // Lists the directory again. Other processes may have saved or removed steps. A step that this
  // manager saves at the moment stays.
  void reload();

  // Waits until the running save is durable and the steps to be removed are removed. Throws their
  // errors.
  void wait_until_finished();
  // Throws the error of a finished save or removal. Does not wait.
  void check_for_errors();
  [[nodiscard]] bool is_saving_in_progress() const;
  // As wait_until_finished(). Nothing can be saved afterwards.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Records a signal to end the process; the signal then does not end it. A cluster sends SIGTERM
// before it takes a machine away:
//
//   const TerminationSignal signal;
//   CheckpointManager manager(directory, {.is_preempted = signal.preemption_check()});
//   while (...) {
//     manager.save(step, tree);  // saves the step after the signal
//     if (manager.reached_preemption()) break;
//   }
//   manager.close();
//
// Ask the manager, not the object: a signal that arrives after the decision of save() takes effect
// at the next step, and may reach only one of several processes. Only one object for each signal
// may exist at a time.
class TerminationSignal {
 public:
  // Throws invalid_argument for a signal that cannot be caught, failed_precondition if another
  // object has it.
  explicit TerminationSignal(int signal = SIGTERM);
  // Gives the signal its earlier effect back.
  ~TerminationSignal();
  TerminationSignal(const TerminationSignal&) = delete;
  TerminationSignal& operator=(const TerminationSignal&) = delete;

  [[nodiscard]] bool received() const;
  // Returns a function for CheckpointManagerOptions::is_preempted. It returns true once the signal
  // has arrived.
  [[nodiscard]] std::function<bool(std::int64_t step)> preemption_check() const;

 private:
  int signal_;
  std::shared_ptr<const void> before_;
};

// Options of StepWatcher.
struct StepWatcherOptions {
  StepNameFormat step_name_format = StepNameFormat();
  // kCommitMarker: a step counts when it has its commit marker.
  CommitProtocol commit_protocol = CommitProtocol::kAtomicRename;
  bool allow_legacy_atomic_rename = false;             // as PyTreeCheckpointHandlerOptions
  std::shared_ptr<const StepFormat> step_format = {};  // as CheckpointManagerOptions
  StoreOptions store = {};                             // how to reach the store of a URL
  std::optional<std::int64_t> first_step = {};         // earlier steps do not count
  std::chrono::nanoseconds poll_interval = std::chrono::seconds(1);
  std::chrono::nanoseconds min_interval = {};            // between two steps that next() returns
  std::optional<std::chrono::nanoseconds> timeout = {};  // of one call of next(); none: no limit
  // Called after the timeout, and then with every poll. Returns whether to give up. Null: yes.
  std::function<bool()> gives_up = {};
};

// Waits for the steps that another process saves, for example to evaluate them. Orbax's
// wait_for_new_checkpoint and checkpoints_iterator.
class StepWatcher {
 public:
  // The directory may be missing; it counts as empty. Throws invalid_argument for an interval that
  // is negative.
  explicit StepWatcher(std::string directory, StepWatcherOptions options = {});
  // Waits until there is a later step than the one returned before, and returns the latest. Only
  // complete steps count, as for CheckpointManager. Steps
  // in between are skipped. Returns nullopt when it gives up. A step may be removed while it is
  // read, which fails with not_found or unavailable.
  std::optional<std::int64_t> next();

 private:
  std::string directory_;
  std::shared_ptr<KvStore> store_;  // null for a path
  StepWatcherOptions options_;
  std::optional<std::int64_t> wanted_;
  std::optional<std::chrono::steady_clock::time_point> last_time_;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
