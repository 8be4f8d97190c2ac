// state.h -- what a CheckpointManager knows and does. Each job has a file of its own: the root of
// the run (root.cc), the list of its steps (step_list.cc), which steps are saved (decisions.cc),
// one save at a time (saves.cc), and which steps are removed (removals.cc).
//
// Several processes have one manager each, with equal lists. All of them write a step. The primary
// process alone decides which steps are kept, removes the others, and makes the directory.
#pragma once

#include <cairn/checkpoint_manager.h>

#include <cairn/base/errors.h>
#include <cairn/base/observer/observe.h>
#include <cairn/distributed/process_group.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/commit/background_task.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/manager/checkpoint_manager/step_listing.h>
#include <cairn/orbax/manager/run_root.h>
#include <cairn/orbax/manager/step_directory.h>
#include <cairn/orbax/manager/step_events.h>
#include <cairn/orbax/manager/step_links.h>
#include <cairn/orbax/save/composite_args.h>
#include <cairn/step_policies.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {
namespace orbax {

// What is decided about a step.
struct SaveDecision {
  bool is_wanted = false;
  bool is_preempted = false;
};

}  // namespace orbax

struct CheckpointManager::State {
  State(const std::string& directory, CheckpointManagerOptions given);

  // ---- the root of the run ----

  // The absolute path of the directory, which exists, or the URL of a run.
  std::string made_root(const std::string& directory);
  void make_root(const std::string& directory) const;
  void make_directory(const std::string& directory) const;
  // A store has no directories to be made: a root is there while objects are.
  void check_root_in_store(const orbax::RunRoot& root_there) const;
  void report_left(const std::string& directory, const Error& why) const;
  // The root as it is now. Null if somebody has removed the directory. The next save makes it
  // again, as in Orbax.
  [[nodiscard]] std::unique_ptr<orbax::RunRoot> look() const;
  [[nodiscard]] std::string name_of(std::int64_t step) const {
    return step_name(step, options.step_name_format);
  }
  [[nodiscard]] std::string folder_of(std::int64_t step) const {
    return orbax::join(root, name_of(step));
  }

  // ---- the list of steps ----

  void reload();
  // Makes `found` the steps of this manager. The search for them began at `watch`; `is_saving`:
  // whether this manager saved a step then.
  void take(orbax::FoundSteps found, bool is_saving, const Stopwatch& watch);
  [[nodiscard]] orbax::FoundSteps stored_steps() const;
  // As stored_steps(), for the constructor, which all processes call: one of them asks a store.
  [[nodiscard]] orbax::FoundSteps steps_for_all() const;
  // Reads the times and metrics of the steps that were there before.
  void read_details();
  void read_details(const orbax::RunRoot& there, StepInfo& info) const;
  [[nodiscard]] bool is_incomplete(std::int64_t step) const {
    return std::ranges::find(incomplete, step, &IncompleteStep::step) != incomplete.end();
  }
  [[nodiscard]] bool has(std::int64_t step) const {
    return std::ranges::any_of(steps, [&](const StepInfo& info) { return info.step == step; });
  }
  void forget(const std::vector<std::int64_t>& gone) {
    std::erase_if(steps, [&](const StepInfo& info) {
      return std::ranges::find(gone, info.step) != gone.end();
    });
    publish();
  }
  // Shows the list to other threads. Call it after every change of `steps` and `incomplete`.
  void publish();
  // The folder of a step (none: the latest). Throws not_found.
  [[nodiscard]] std::string existing(std::optional<std::int64_t> step) const;
  [[nodiscard]] std::string existing(std::optional<std::int64_t> step, std::string_view item) const;

  // Throws for steps that hold one tree.
  void refuse_items() const {
    if (options.step_format != nullptr)
      invalid_argument("steps of this format hold one tree each, and no items");
  }

  // ---- which steps are saved ----

  [[nodiscard]] bool is_preempted(std::int64_t step) const {
    return options.is_preempted && options.is_preempted(step);
  }
  [[nodiscard]] bool should_save(std::int64_t step, bool preempted);
  [[nodiscard]] orbax::SaveDecision decide_here(std::int64_t step, bool force);
  // Whether any of the processes wants the step, and whether any is to end. A signal to end may
  // have reached only one of them, and their clocks differ.
  [[nodiscard]] orbax::SaveDecision decide(std::int64_t step, bool force);

  // ---- one save at a time ----

  // Saves the items that `add_items` adds.
  bool save(std::int64_t step, const StepSaveOptions& save,
            const std::function<void(orbax::CompositeArgs&)>& add_items);
  // When this manager has saved its last step; none if it has not.
  [[nodiscard]] std::optional<std::chrono::system_clock::time_point> last_time() const;
  // Runs what is left of a save.
  void run(std::function<void()> rest);
  // After an error the list no longer tells what is there.
  template <class Work>
  void looking_again(Work&& work) {
    try {
      work();
    } catch (...) {
      // If the list cannot be read either, the first error says more.
      (void)try_call([&] { return reload(), true; });
      throw;
    }
  }
  void wait();
  // Waits for what must have ended before the step is saved. Several processes must find the same
  // errors, so they wait for the removals, too.
  void wait_before(std::int64_t step);

  // ---- which steps are removed ----

  // The steps that are not to be kept, which the primary decides.
  std::vector<std::int64_t> unkept();
  std::vector<std::int64_t> select_unkept();
  // The names of those of the steps that links lead to, with such a link.
  std::map<std::string, std::string> needed_by_links(const std::vector<std::int64_t>& chosen);
  // In the primary, removes a step. Waits until it is gone.
  void remove(const std::vector<std::int64_t>& gone) const;
  // Removes all of them, also if one cannot be removed. Then throws the first error.
  void remove_here(const std::vector<std::int64_t>& gone) const;
  void remove_here(std::int64_t step) const;
  // Processes that save separately may have different steps to remove, but meet all the same.
  [[nodiscard]] bool removes_any(const std::vector<std::int64_t>& gone) const {
    return !gone.empty() || group.writes_separately();
  }
  void remove_after(std::int64_t saved, const std::vector<std::int64_t>& gone) const;
  // Throws in all processes unless each of them can remove the step.
  void check_removable(std::int64_t step);
  // Removes a step that is removable.
  void remove(std::int64_t step);

  CheckpointManagerOptions options;
  distributed::ProcessGroup group;
  SavePolicy saves;
  KeepPolicy keeps;
  PyTreeCheckpointHandler handler;
  StorePtr store;    // of a URL; null for a directory
  std::string root;  // its path; somebody may put another directory there
  orbax::StepEvents events{options.handler.observer, root};
  std::vector<StepInfo> steps;             // the complete ones, in the order of their saves
  std::vector<IncompleteStep> incomplete;  // when the directory was listed
  orbax::StepListing listing;              // both, for other threads
  orbax::StepLinks links;
  bool has_details = false;  // times and metrics of all steps are read
  bool closed = false;
  std::atomic<bool> reached_preemption = false;  // some process is to end
  std::set<std::int64_t> going;                  // steps that are being removed in the background
  std::int64_t saving_step = -1;                 // of the last save
  orbax::BackgroundTask removing;                // ends before the members above
  orbax::BackgroundTask running;                 // the rest of a save, which may start a removal
};

}  // namespace cairn::inline v0
