// checkpoint_manager.cc -- keeps the list of steps, and runs one save at a time.
//
// Several processes have one manager each, with equal lists. All of them write a step. The primary
// process alone decides which steps are kept, removes the others, and makes the directory.
#include <cairn/checkpoint_manager.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/base/observer/observe.h>
#include <cairn/base/text.h>
#include <cairn/distributed/consistency.h>
#include <cairn/distributed/process_group.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/commit/background_task.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/manager/best_steps.h>
#include <cairn/orbax/manager/manager_options.h>
#include <cairn/orbax/manager/run_root.h>
#include <cairn/orbax/manager/step_directory.h>
#include <cairn/orbax/manager/step_events.h>
#include <cairn/orbax/manager/step_links.h>
#include <cairn/orbax/restore/restored_items.h>
#include <cairn/orbax/save/composite_args.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kDefaultItem = "default";

using distributed::StepKind;

// What is decided about a step.
struct Decision {
  bool is_wanted = false;
  bool is_preempted = false;
};

Bytes message_of(std::uint64_t digest, Decision decision) {
  return std::move(ByteWriter().u64(digest).u8(decision.is_wanted).u8(decision.is_preempted))
      .take();
}

Decision decision_of(ByteView message) {
  ByteReader in(message);
  in.take(sizeof(std::uint64_t));
  const bool is_wanted = in.u8() != 0;
  return {is_wanted, in.u8() != 0};
}

Bytes message_of(const std::vector<std::int64_t>& steps) {
  ByteWriter message;
  for (const std::int64_t step : steps) message.u64(static_cast<std::uint64_t>(step));
  return std::move(message).take();
}

std::vector<std::int64_t> steps_of(ByteView message) {
  std::vector<std::int64_t> steps;
  ByteReader in(message);
  for (std::size_t n = message.size() / sizeof(std::uint64_t); n > 0; --n)
    steps.push_back(static_cast<std::int64_t>(in.u64()));
  return steps;
}

}  // namespace

struct CheckpointManager::State {
  State(const std::string& directory, CheckpointManagerOptions given)
      : options(std::move(given)),
        group(options.handler.multiprocessing_options, options.handler.observer),
        saves((orbax::check_options(options), orbax::save_policy_of(options))),
        keeps(orbax::keep_policy_of(options)),
        handler(options.handler),
        root(made_root(directory)) {
    for (const std::string_view option : orbax::ignored_options(options))
      events.option_ignored(option);
    const Stopwatch watch;
    take(steps_for_all(), watch);
  }

  // The absolute path of the directory, which exists, or the URL of a run.
  std::string made_root(const std::string& directory) {
    if (directory.empty()) invalid_argument("the directory of the steps has no name");
    // The primary has made the directory when this step ends. A manager that is read-only leaves
    // out steps that the others take.
    distributed::ConsistencyCheck consistency;
    const auto messages = group.gather("steps: make", StepKind::kControl, [&] {
      if (group.is_primary()) make_root(directory);
      consistency.add("read_only", options.read_only ? "true" : "false");
      consistency.add("runs in stores", is_store_url(directory) ? "true" : "false");
      return consistency.message();
    });
    consistency.check(messages, group, "steps: other managers");
    std::string opened;
    group.step("steps: open", StepKind::kControl, [&] {
      store = orbax::open_run_store(directory, options.handler.store);
      opened = store ? normal_path(directory) : Directory::open(directory).path();
    });
    return opened;
  }

  void make_root(const std::string& directory) const {
    const StorePtr made_in = orbax::open_run_store(directory, options.handler.store);
    if (made_in == nullptr) make_directory(directory);
    const std::string path = made_in ? normal_path(directory) : directory;
    const auto made = orbax::look_at_run(path, made_in);
    if (made_in != nullptr) check_root_in_store(*made);
    if (options.read_only) return;
    if (!options.root_metadata.empty()) made->write_root_metadata(options.root_metadata);
    if (options.cleanup_tmp_directories)
      made->remove_leftovers(options.step_name_format, orbax::commit_rule_of(options),
                             [&](const Error& why) { report_left(made->path(), why); });
  }

  void make_directory(const std::string& directory) const {
    refuse_url(directory);
    if (directory_exists(directory)) return;
    if (file_exists(directory))
      invalid_argument(directory + ": is " + kind_at(directory) + "; the steps need a directory");
    if (options.read_only || !options.create)
      throw Error(Code::kNotFound, directory + ": there is no such directory");
    make_directories(directory);
  }

  // A store has no directories to be made: a root is there while objects are.
  void check_root_in_store(const orbax::RunRoot& root_there) const {
    if (options.todelete_subdir && !options.read_only)
      throw Error(Code::kUnimplemented,
                  root_there.path() +
                      ": todelete_subdir needs folders that can be renamed, which a store does not "
                      "have (Orbax ignores the option on gs://); leave it out");
    if ((options.read_only || !options.create) && !root_there.exists())
      throw Error(Code::kNotFound, root_there.path() + ": there is no such directory");
  }

  void report_left(const std::string& directory, const Error& why) const {
    observe(options.handler.observer, EventLevel::kWarning, "steps.not_removed",
            {{"path", directory}, {"message", why.message()}});
  }

  void reload() {
    const Stopwatch watch;
    links.forget();
    take(stored_steps(), watch);
  }

  // Makes `found` the steps of this manager. The search for them began at `watch`.
  void take(orbax::FoundSteps found, const Stopwatch& watch) {
    const bool is_saving = running.is_running();
    if (!is_saving && !removing.is_running()) going.clear();
    // The step that is being saved is not complete yet, or has just become so.
    const auto at = std::ranges::find(steps, saving_step, &StepInfo::step);
    std::optional<StepInfo> saving;
    if (is_saving && at != steps.end()) saving = *at;
    steps.clear();
    for (const std::int64_t step : found.complete)
      if (!going.contains(step)) steps.push_back({.step = step});
    incomplete.clear();
    for (auto& folder : found.incomplete)
      if (!going.contains(folder.step) && !(saving && saving->step == folder.step))
        incomplete.push_back(std::move(folder));
    if (saving) {
      std::erase_if(steps, [&](const auto& step) { return step.step == saving->step; });
      steps.push_back(*saving);
      std::ranges::sort(steps, {}, &StepInfo::step);
    }
    for (const IncompleteStep& found_one : incomplete)
      events.incomplete(found_one.step, found_one.path, found_one.reason);
    has_details = false;
    events.found(steps.size(), watch.elapsed());
  }

  // The root as it is now. Null if somebody has removed the directory. The next save makes it
  // again, as in Orbax.
  [[nodiscard]] std::unique_ptr<orbax::RunRoot> look() const {
    return store || directory_exists(root) ? orbax::look_at_run(root, store) : nullptr;
  }
  [[nodiscard]] orbax::FoundSteps stored_steps() const {
    const auto there = look();
    if (there == nullptr) return {};
    const Workers workers(options.handler.resources.threads);
    return orbax::find_steps(*there, options.step_name_format, orbax::commit_rule_of(options),
                             workers.executor());
  }
  // As stored_steps(), for the constructor, which all processes call: one of them asks a store.
  [[nodiscard]] orbax::FoundSteps steps_for_all() const {
    if (store == nullptr || group.is_single() || group.writes_separately()) return stored_steps();
    const auto messages = group.gather("steps: list", StepKind::kIo, [&] {
      return group.is_primary() ? orbax::message_of(stored_steps()) : Bytes();
    });
    return orbax::found_steps_of(messages[group.primary()]);
  }

  // Reads the times and metrics of the steps that were there before.
  void read_details() {
    if (has_details) return;
    if (const auto there = look()) {
      const Workers workers(options.handler.resources.threads);
      there->for_each(steps.size(), workers.executor(),
                      [&](std::size_t i) { read_details(*there, steps[i]); });
    }
    has_details = true;
  }
  void read_details(const orbax::RunRoot& there, StepInfo& info) const {
    if (info.time == std::chrono::system_clock::time_point())
      info = there.read_step(name_of(info.step), info.step);
  }

  [[nodiscard]] bool is_preempted(std::int64_t step) const {
    return options.is_preempted && options.is_preempted(step);
  }

  [[nodiscard]] bool should_save(std::int64_t step, bool preempted) {
    if (options.read_only) {
      events.skipped_as_read_only("save");
      return false;
    }
    if (!steps.empty() && steps.back().step >= step) return false;
    if (saves.needs_details == StepDetails::kOfAll) read_details();
    if (saves.needs_details == StepDetails::kOfLast && !steps.empty())
      if (const auto there = look()) read_details(*there, steps.back());
    return saves.decide({.step = step,
                         .saved = steps,
                         .is_saving = running.is_running(),
                         .is_preempted = preempted});
  }

  [[nodiscard]] std::string name_of(std::int64_t step) const {
    return step_name(step, options.step_name_format);
  }
  [[nodiscard]] std::string folder_of(std::int64_t step) const {
    return orbax::join(root, name_of(step));
  }
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
  }
  // The folder of a step (none: the latest). Throws not_found.
  [[nodiscard]] std::string existing(std::optional<std::int64_t> step) const {
    if (!step && steps.empty())
      throw Error(Code::kNotFound,
                  root + (incomplete.empty() ? ": has no steps"
                                             : ": has no complete step; step " +
                                                   std::to_string(incomplete.back().step) + ": " +
                                                   incomplete.back().reason));
    const std::int64_t wanted = step.value_or(steps.empty() ? 0 : steps.back().step);
    std::string folder = folder_of(wanted);
    const auto there = look();
    const orbax::StepPresence presence =
        there ? there->presence(name_of(wanted), orbax::commit_rule_of(options))
              : orbax::StepPresence::kAbsent;
    if (presence == orbax::StepPresence::kAbsent)
      throw Error(Code::kNotFound, folder + ": there is no such step");
    if (presence == orbax::StepPresence::kUncommitted)
      throw Error(Code::kNotFound, folder + ": the step is not committed: it has no " +
                                       std::string(orbax::kCommitFile));
    return folder;
  }
  [[nodiscard]] std::string existing(std::optional<std::int64_t> step,
                                     std::string_view item) const {
    const std::string above = existing(step);
    std::string folder = orbax::join(above, item);
    const auto there = look();
    if (there == nullptr || !there->has_item(std::string(cairn::name_of(above)), item))
      throw Error(Code::kNotFound, folder + ": the step has no such item");
    return folder;
  }

  [[nodiscard]] Decision decide_here(std::int64_t step, bool force) {
    if (closed) throw Error(Code::kFailedPrecondition, "the manager is closed and cannot save");
    const bool preempted = is_preempted(step);
    return {force || should_save(step, preempted), preempted};
  }

  // Whether any of the processes wants the step, and whether any is to end. A signal to end may
  // have reached only one of them, and their clocks differ.
  [[nodiscard]] Decision decide(std::int64_t step, bool force) {
    if (group.is_single()) return decide_here(step, force);
    distributed::ConsistencyCheck consistency("saves");
    const auto messages = group.gather("steps: decide", StepKind::kControl, [&] {
      const Decision here = decide_here(step, force);
      consistency.add("the processes do not save the same step", "step " + std::to_string(step));
      return message_of(consistency.digest(), here);
    });
    consistency.check(messages, group, "steps: other steps");
    Decision all;
    for (const Bytes& message : messages) {
      const Decision one = decision_of(message);
      all.is_wanted |= one.is_wanted;
      all.is_preempted |= one.is_preempted;
    }
    return all;
  }

  // The steps that are not to be kept, which the primary decides.
  std::vector<std::int64_t> unkept() {
    const auto messages = group.gather("steps: keep", StepKind::kControl, [&] {
      return group.is_primary() ? message_of(select_unkept()) : Bytes();
    });
    return steps_of(messages[group.writes_separately() ? group.index() : group.primary()]);
  }

  std::vector<std::int64_t> select_unkept() {
    const Stopwatch watch;
    if (keeps.needs_details) read_details();
    const std::vector<bool> kept = keeps.select(steps);
    if (kept.size() != steps.size())
      invalid_argument("the keep policy returned " + std::to_string(kept.size()) +
                       " decisions for " + std::to_string(steps.size()) + " steps");
    std::vector<std::int64_t> chosen;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (!kept[i]) chosen.push_back(steps[i].step);
    const auto needed = needed_by_links(chosen);
    std::erase_if(chosen, [&](std::int64_t step) { return needed.contains(name_of(step)); });
    events.chosen(steps.size(), chosen.size(), watch.elapsed());
    return chosen;
  }

  // The names of those of the steps that links lead to, with such a link.
  std::map<std::string, std::string> needed_by_links(const std::vector<std::int64_t>& chosen) {
    const auto there = chosen.empty() ? nullptr : look();
    if (there == nullptr) return {};
    std::set<std::string> names, chosen_names;
    for (const StepInfo& info : steps) names.insert(name_of(info.step));
    for (const IncompleteStep& folder : incomplete) names.emplace(cairn::name_of(folder.path));
    for (const std::int64_t step : chosen) chosen_names.insert(name_of(step));
    return there->needed_by_links(links, names, chosen_names);
  }

  // In the primary, removes a step. Waits until it is gone.
  void remove(const std::vector<std::int64_t>& gone) const {
    group.step("steps: remove", StepKind::kIo, [&] {
      if (group.is_primary()) remove_here(gone);
    });
  }

  // Removes all of them, also if one cannot be removed. Then throws the first error.
  void remove_here(const std::vector<std::int64_t>& gone) const {
    std::optional<Error> first;
    for (const std::int64_t step : gone) {
      auto removed = try_call([&] { return remove_here(step), true; });
      if (!removed && !first) first = removed.error();
    }
    if (first) throw Error(*first);
  }

  void remove_here(std::int64_t step) const {
    const auto there = look();
    if (there == nullptr) return;
    if (options.todelete_subdir)
      there->set_step_aside(name_of(step), *options.todelete_subdir, ForeignFiles::kRefuse);
    else
      there->remove_step(name_of(step), options.handler.commit_protocol, ForeignFiles::kRefuse);
    observe(options.handler.observer, EventLevel::kInfo, "steps.removed",
            {{"path", root}, {"step", step}});
  }

  // Processes that save separately may have different steps to remove, but meet all the same.
  [[nodiscard]] bool removes_any(const std::vector<std::int64_t>& gone) const {
    return !gone.empty() || group.writes_separately();
  }

  void remove_after(std::int64_t saved, const std::vector<std::int64_t>& gone) const {
    const Stopwatch watch;
    try {
      if (removes_any(gone)) remove(gone);
      events.old_removed(saved, watch);
    } catch (Error& e) {
      e.add_context("step " + std::to_string(saved) + " is saved, but an older one is not removed");
      report_left(root, e);
      throw;
    }
  }

  // When this manager has saved its last step; none if it has not.
  [[nodiscard]] std::optional<std::chrono::system_clock::time_point> last_time() const {
    if (steps.empty() || steps.back().time == std::chrono::system_clock::time_point())
      return std::nullopt;
    return steps.back().time;
  }

  // Saves the items that `add_items` adds.
  template <class AddItems>
  bool save(std::int64_t step, const StepSaveOptions& save, AddItems add_items) {
    const Stopwatch since_call;
    const Decision decision = decide(step, save.force);
    reached_preemption |= decision.is_preempted;
    if (!decision.is_wanted) return false;
    if (options.read_only)
      throw Error(Code::kFailedPrecondition, root + ": the manager is read-only and cannot save");
    const Stopwatch waiting;
    wait_before(step);
    events.waited(step, waiting);
    orbax::CompositeArgs args{.custom_metadata = save.custom_metadata,
                              .if_exists = IfExists::kReplace,
                              .progress = save.progress,
                              .cancel = save.cancel};
    if (options.handler.reuse == Reuse::kUnchanged && !steps.empty())
      args.reuse_from = folder_of(steps.back().step);
    group.step("steps: check", StepKind::kControl, [&] {
      if (has(step))
        throw Error(Code::kAlreadyExists, folder_of(step) + ": the step is already saved");
      if (options.best_fn && !save.metrics) events.metrics_missing(step);
      add_items(args);
      if (save.metrics && options.best_fn && !options.prevent_write_metrics)
        orbax::add_text(std::string(orbax::kMetricsItem), std::string(orbax::kJsonHandler),
                        std::string(orbax::kMetricsItem), orbax::metrics_text(*save.metrics), args);
    });
    for (const IncompleteStep& folder : incomplete)
      if (folder.step == step && folder.path == folder_of(step))
        events.incomplete_replaced(step, folder.path);
    auto write = handler.start_checkpoint(
        folder_of(step), [&] { return std::move(args); }, options.enable_async_checkpointing);
    const auto before = last_time();
    std::erase_if(incomplete, [&](const auto& folder) { return folder.step == step; });
    links.add_without_links(name_of(step));
    steps.push_back(
        {.step = step, .time = std::chrono::system_clock::now(), .metrics = save.metrics});
    saving_step = step;
    looking_again([&] {
      std::vector<std::int64_t> gone = unkept();
      forget(gone);
      if (options.enable_background_delete) going.insert(gone.begin(), gone.end());
      run([this, step, since_call, decision, before, write = std::move(write),
           gone = std::move(gone)]() mutable {
        write();
        write = nullptr;  // gives up the lock on the step, which may itself be one of those to go
        if (decision.is_preempted) events.saved_by_preemption(step, before);
        if (options.enable_background_delete && removes_any(gone))
          removing.start([this, step, gone = std::move(gone)] { remove_after(step, gone); });
        else
          remove_after(step, gone);
        events.finished(step, since_call);
      });
    });
    events.blocked(step, since_call);
    return true;
  }

  // Runs what is left of a save.
  void run(std::function<void()> rest) {
    if (options.enable_async_checkpointing)
      running.start(std::move(rest));
    else
      rest();
  }

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

  void wait() {
    looking_again([&] {
      running.wait();
      removing.wait();
      going.clear();
    });
  }
  // Waits for what must have ended before the step is saved. Several processes must find the same
  // errors, so they wait for the removals, too.
  void wait_before(std::int64_t step) {
    if (!group.is_single() || going.contains(step)) return wait();
    looking_again([&] {
      running.wait();
      removing.check();
    });
  }

  // Throws in all processes unless each of them can remove the step.
  void check_removable(std::int64_t step) {
    group.step("steps: check", StepKind::kControl, [&] {
      if (!has(step) && !is_incomplete(step))
        throw Error(Code::kNotFound, folder_of(step) + ": there is no such step");
      const auto needed = needed_by_links({step});
      if (!needed.empty())
        throw Error(Code::kFailedPrecondition, folder_of(step) + ": the link " +
                                                   needed.begin()->second +
                                                   " leads to the step; remove the link first");
    });
  }

  // Removes a step that is removable.
  void remove(std::int64_t step) {
    std::erase_if(incomplete, [&](const auto& folder) { return folder.step == step; });
    if (!options.enable_background_delete) {
      remove(std::vector{step});
      return forget({step});
    }
    forget({step});
    going.insert(step);
    removing.start([this, step] { remove(std::vector{step}); });
  }

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
  orbax::StepLinks links;
  bool has_details = false;  // times and metrics of all steps are read
  bool closed = false;
  bool reached_preemption = false;  // some process is to end
  std::set<std::int64_t> going;     // steps that are being removed in the background
  std::int64_t saving_step = -1;    // of the last save
  orbax::BackgroundTask removing;   // ends before the members above
  orbax::BackgroundTask running;    // the rest of a save, which may start a removal
};

CheckpointManager::CheckpointManager(const std::string& directory, CheckpointManagerOptions options)
    : state_(std::make_unique<State>(directory, std::move(options))) {}
CheckpointManager::~CheckpointManager() = default;

const std::string& CheckpointManager::directory() const { return state_->root; }

std::vector<std::int64_t> CheckpointManager::all_steps() const {
  std::vector<std::int64_t> steps;
  for (const StepInfo& info : state_->steps) steps.push_back(info.step);
  return steps;
}

std::vector<IncompleteStep> CheckpointManager::incomplete_steps() const {
  return state_->incomplete;
}

std::optional<std::int64_t> CheckpointManager::latest_step() const {
  if (state_->steps.empty()) return std::nullopt;
  return state_->steps.back().step;
}

std::optional<std::int64_t> CheckpointManager::best_step() const {
  if (!state_->options.best_fn) return latest_step();
  state_->read_details();
  const std::vector<std::size_t> ranked =
      orbax::by_quality(state_->steps, state_->options.best_fn, state_->options.best_mode);
  if (ranked.empty()) return std::nullopt;
  return state_->steps[ranked.back()].step;
}

std::optional<Metrics> CheckpointManager::metrics(std::int64_t step) const {
  const auto there = state_->look();
  return there ? there->read_metrics(state_->name_of(step)) : std::nullopt;
}

StepMetadata CheckpointManager::metadata(std::int64_t step) const {
  return read_step_metadata(state_->existing(step), state_->options.handler.store);
}

std::string CheckpointManager::root_metadata() const {
  const auto there = state_->look();
  std::string stored = there ? there->read_root_metadata() : "";
  const CheckpointManagerOptions& options = state_->options;
  if (!stored.empty() || !options.read_only || options.root_metadata.empty()) return stored;
  return orbax::json_object_text(options.root_metadata, "the root metadata");
}

bool CheckpointManager::should_save(std::int64_t step) const {
  return state_->should_save(step, state_->is_preempted(step));
}

bool CheckpointManager::reached_preemption() const { return state_->reached_preemption; }

bool CheckpointManager::save(std::int64_t step, const PyTreeSaveArgs& tree,
                             const StepSaveOptions& options) {
  return state_->save(step, options, [&](orbax::CompositeArgs& args) {
    orbax::add_tree(std::string(kDefaultItem), tree, args);
  });
}

bool CheckpointManager::save(std::int64_t step, const CheckpointItems& items,
                             const StepSaveOptions& options) {
  return state_->save(step, options, [&](orbax::CompositeArgs& args) {
    for (const auto& [name, item] : items) {
      if (name == orbax::kMetricsItem)
        invalid_argument("the item name '" + name + "' is reserved; give metrics as an option");
      orbax::add_item(name, item, args);
    }
  });
}

Tree CheckpointManager::restore(std::optional<std::int64_t> step, const PyTreeRestoreArgs& args,
                                std::string_view item) {
  state_->wait();
  return state_->handler.restore(state_->existing(step, item), args);
}

RestoredItems CheckpointManager::restore_items(std::optional<std::int64_t> step,
                                               const ItemRequests& requests,
                                               const FilesReaders& readers) {
  state_->wait();
  const State& state = *state_;
  return orbax::restore_items(
      state.existing(step), requests,
      {state.handler, readers, state.options.handler.observer, state.options.handler.store});
}

std::string CheckpointManager::restore_json(std::optional<std::int64_t> step,
                                            std::string_view item) {
  state_->wait();
  return orbax::read_json_file(state_->existing(step, item), item, state_->options.handler.store);
}

void CheckpointManager::remove(std::int64_t step) {
  if (state_->options.read_only) return state_->events.skipped_as_read_only("remove");
  state_->wait();
  state_->check_removable(step);
  state_->remove(step);
}

void CheckpointManager::reload() { state_->reload(); }

void CheckpointManager::wait_until_finished() { state_->wait(); }

void CheckpointManager::check_for_errors() {
  state_->looking_again([&] {
    state_->running.check();
    state_->removing.check();
  });
}

bool CheckpointManager::is_saving_in_progress() const { return state_->running.is_running(); }

void CheckpointManager::close() {
  state_->closed = true;
  state_->wait();
  state_->handler.close();
}

}  // namespace cairn::inline v0
