// checkpoint_manager.cc -- keeps the list of steps, and runs one save at a time.
#include <cairn/checkpoint_manager.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/observer/observe.h>
#include <cairn/distributed.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/manager/step_directory.h>
#include <cairn/orbax/save/composite_args.h>

#include <algorithm>
#include <future>
#include <mutex>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kDefaultItem = "default";
constexpr std::string_view kJsonItemFile = "metadata";

void check_options(const CheckpointManagerOptions& options) {
  if (options.keep_policy.select &&
      (options.max_to_keep || options.keep_period || options.keep_time_interval))
    invalid_argument("keep_policy excludes max_to_keep, keep_period and keep_time_interval");
  if (options.save_interval_steps <= 0)
    invalid_argument("save_interval_steps is " + std::to_string(options.save_interval_steps) +
                     "; it must be positive");
  if (options.todelete_subdir) {
    const std::string& name = *options.todelete_subdir;
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
      invalid_argument("todelete_subdir '" + name + "' is not the name of a directory");
  }
  const auto& coordinator = options.handler.multiprocessing_options.coordinator;
  if (coordinator && coordinator->process_count() > 1)
    throw Error(Code::kUnimplemented,
                "CheckpointManager saves for one process; several processes save together with "
                "Checkpointer and AsyncCheckpointer");
  (void)step_name(0, options.step_name_format);
}

SavePolicy save_policy_of(const CheckpointManagerOptions& options) {
  if (options.save_policy) return options.save_policy;
  return save_policy::any_of({save_policy::fixed_interval(options.save_interval_steps),
                              save_policy::specific_steps(options.save_on_steps),
                              save_policy::preemption(), save_policy::initial()});
}

KeepPolicy keep_policy_of(const CheckpointManagerOptions& options) {
  if (options.read_only) return keep_policy::all();
  if (options.keep_policy.select) return options.keep_policy;
  if (!options.max_to_keep) return keep_policy::all();
  std::vector<KeepPolicy> policies;
  if (options.keep_period) policies.push_back(keep_policy::every_n_steps(*options.keep_period));
  if (options.keep_time_interval)
    policies.push_back(keep_policy::every(*options.keep_time_interval));
  policies.push_back(options.best_fn ? keep_policy::best(*options.max_to_keep, options.best_fn,
                                                         options.best_mode,
                                                         options.keep_checkpoints_without_metrics)
                                     : keep_policy::latest(*options.max_to_keep));
  return keep_policy::any_of(std::move(policies));
}

std::string json_object(const std::string& text, const std::string& what) {
  const Json json = with_context([&] { return what; }, [&] { return parse_json(text); });
  if (json.as_object() == nullptr)
    invalid_argument(what + " is " + std::string(json.type_text()) + "; it must be a JSON object");
  return to_text(json, JsonStyle::kPython);
}

void add_item(const std::string& name, const StepItem& item, orbax::CompositeArgs& args) {
  if (name == orbax::kMetricsItem)
    invalid_argument("the item name '" + name + "' is reserved; give metrics as an option");
  if (const auto* tree = std::get_if<PyTreeSaveArgs>(&item)) {
    args.trees.emplace_back(name, tree);
    return;
  }
  const Json json = with_context([&] { return "the item '" + name + "'"; },
                                 [&] { return parse_json(std::get<JsonItem>(item).text); });
  args.json.push_back({name, std::string(kJsonItemFile), to_text(json, JsonStyle::kPython)});
}

}  // namespace

struct CheckpointManager::State {
  State(const std::string& directory, CheckpointManagerOptions given)
      : options(std::move(given)),
        saves((check_options(options), save_policy_of(options))),
        keeps(keep_policy_of(options)),
        handler(options.handler),
        root(open_root(directory)) {
    write_root_metadata();
    reload();
  }
  ~State() {
    if (running.valid()) running.wait();
  }

  Directory open_root(const std::string& directory) const {
    if (directory.empty()) invalid_argument("the directory of the steps has no name");
    if (file_exists(directory) && !directory_exists(directory))
      invalid_argument(directory + ": is a file; the steps need a directory");
    if (!directory_exists(directory)) {
      if (options.read_only || !options.create)
        throw Error(Code::kNotFound, directory + ": there is no such directory");
      make_directories(directory);
    }
    return Directory::open(directory);
  }

  void write_root_metadata() const {
    if (options.root_metadata.empty() || options.read_only) return;
    const std::string folder = root.path_of(orbax::kRootMetadataFolder);
    const std::string file = orbax::join(folder, orbax::kRootMetadataFile);
    const std::string custom = json_object(options.root_metadata, "the root metadata");
    if (file_exists(file)) return;
    make_directories(folder);
    AtomicFile out(file);
    out.append(as_bytes("{\"internal_metadata\": {}, \"custom_metadata\": " + custom + "}"));
    out.commit();
  }

  void reload() {
    steps.clear();
    for (const std::int64_t step : orbax::steps_in(root, options.step_name_format))
      steps.push_back({.step = step});
    has_details = false;
  }

  // Reads the times and metrics of the steps that were there before.
  void read_details() {
    if (has_details) return;
    for (StepInfo& info : steps)
      if (info.time == std::chrono::system_clock::time_point())
        info = orbax::read_step(folder_of(info.step), info.step);
    has_details = true;
  }

  [[nodiscard]] std::string name_of(std::int64_t step) const {
    return step_name(step, options.step_name_format);
  }
  [[nodiscard]] std::string folder_of(std::int64_t step) const {
    return root.path_of(name_of(step));
  }
  [[nodiscard]] bool has(std::int64_t step) const {
    return std::ranges::any_of(steps, [&](const StepInfo& info) { return info.step == step; });
  }
  // The folder of a step (none: the latest). Throws not_found.
  [[nodiscard]] std::string existing(std::optional<std::int64_t> step) const {
    if (!step) {
      if (steps.empty())
        throw Error(Code::kNotFound, root.path() + ": there is no step to restore");
      step = steps.back().step;
    }
    std::string folder = folder_of(*step);
    if (!directory_exists(folder)) throw Error(Code::kNotFound, folder + ": there is no such step");
    return folder;
  }

  // Takes the steps that are not kept from the list, and returns them.
  std::vector<std::int64_t> take_unkept() {
    if (keeps.needs_details) read_details();
    const std::vector<bool> kept = keeps.select(steps);
    if (kept.size() != steps.size())
      invalid_argument("the keep policy returned " + std::to_string(kept.size()) +
                       " decisions for " + std::to_string(steps.size()) + " steps");
    std::vector<std::int64_t> unkept;
    std::vector<StepInfo> left;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (kept[i])
        left.push_back(std::move(steps[i]));
      else
        unkept.push_back(steps[i].step);
    }
    steps = std::move(left);
    return unkept;
  }

  void remove(std::int64_t step) const {
    if (options.todelete_subdir)
      orbax::set_step_aside(root, name_of(step), *options.todelete_subdir);
    else
      orbax::remove_step(root, name_of(step));
    observe(options.handler.observer, EventLevel::kInfo, "steps.removed",
            {{"path", root.path()}, {"step", step}});
  }

  // Removes all of them, also if one cannot be removed. Then throws the first error.
  void remove_after(std::int64_t saved, const std::vector<std::int64_t>& unkept) const {
    std::optional<Error> first;
    for (const std::int64_t step : unkept) {
      auto removed = try_call([&] { return remove(step), true; });
      if (!removed && !first) first = removed.error();
    }
    if (!first) return;
    first->add_context("step " + std::to_string(saved) +
                       " is saved, but an older one is not removed");
    observe(options.handler.observer, EventLevel::kWarning, "steps.not_removed",
            {{"path", root.path()}, {"message", first->message()}});
    throw Error(*first);
  }

  // Runs what is left of a save.
  void run(std::function<void()> rest) {
    if (options.enable_async_checkpointing)
      running = std::async(std::launch::async, std::move(rest));
    else
      looking_again([&] { rest(); });
  }

  // After an error the list no longer tells what is there.
  template <class Work>
  void looking_again(Work&& work) {
    try {
      work();
    } catch (...) {
      reload();
      throw;
    }
  }

  void wait() {
    if (!running.valid()) return;
    looking_again([&] { running.get(); });
  }
  [[nodiscard]] bool is_running() const {
    return running.valid() &&
           running.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  }

  CheckpointManagerOptions options;
  SavePolicy saves;
  KeepPolicy keeps;
  PyTreeCheckpointHandler handler;
  Directory root;
  std::vector<StepInfo> steps;  // in the order of their saves
  bool has_details = false;     // times and metrics of all steps are read
  bool closed = false;
  std::future<void> running;  // valid until the result is collected
};

CheckpointManager::CheckpointManager(const std::string& directory, CheckpointManagerOptions options)
    : state_(std::make_unique<State>(directory, std::move(options))) {}
CheckpointManager::~CheckpointManager() = default;

const std::string& CheckpointManager::directory() const { return state_->root.path(); }

std::vector<std::int64_t> CheckpointManager::all_steps() const {
  std::vector<std::int64_t> steps;
  for (const StepInfo& info : state_->steps) steps.push_back(info.step);
  return steps;
}

std::optional<std::int64_t> CheckpointManager::latest_step() const {
  if (state_->steps.empty()) return std::nullopt;
  return state_->steps.back().step;
}

std::optional<std::int64_t> CheckpointManager::best_step() const {
  const MetricFn& best_fn = state_->options.best_fn;
  if (!best_fn) return latest_step();
  state_->read_details();
  const StepInfo* best = nullptr;
  double quality = 0;
  for (const StepInfo& info : state_->steps) {
    if (!info.metrics) continue;
    const double value = best_fn(*info.metrics);
    const bool is_worse =
        state_->options.best_mode == BestMode::kMax ? value < quality : quality < value;
    if (best != nullptr && is_worse) continue;
    best = &info;
    quality = value;
  }
  if (best == nullptr) return std::nullopt;
  return best->step;
}

std::optional<Metrics> CheckpointManager::metrics(std::int64_t step) const {
  return orbax::read_metrics(state_->folder_of(step));
}

bool CheckpointManager::should_save(std::int64_t step) const {
  if (state_->options.read_only) return false;
  const auto latest = latest_step();
  if (latest && *latest >= step) return false;
  return state_->saves(
      {.step = step,
       .saved = state_->steps,
       .is_saving = state_->is_running(),
       .is_preempted = state_->options.is_preempted && state_->options.is_preempted(step)});
}

bool CheckpointManager::save(std::int64_t step, const PyTreeSaveArgs& tree,
                             const StepSaveOptions& options) {
  return save(step, StepItems{{std::string(kDefaultItem), tree}}, options);
}

bool CheckpointManager::save(std::int64_t step, const StepItems& items,
                             const StepSaveOptions& options) {
  State& state = *state_;
  if (state.closed) throw Error(Code::kFailedPrecondition, "the manager is closed and cannot save");
  if (!options.force && !should_save(step)) return false;
  if (state.options.read_only)
    throw Error(Code::kFailedPrecondition,
                directory() + ": the manager is read-only and cannot save");
  state.wait();
  if (state.has(step))
    throw Error(Code::kAlreadyExists, state.folder_of(step) + ": the step is already saved");
  orbax::CompositeArgs args{.custom_metadata = options.custom_metadata,
                            .if_exists = IfExists::kReplace};
  for (const auto& item : items) add_item(item.first, item.second, args);
  const bool has_metrics = options.metrics && state.options.best_fn;
  if (has_metrics)
    args.json.push_back({std::string(orbax::kMetricsItem), std::string(orbax::kMetricsItem),
                         orbax::metrics_text(*options.metrics)});
  if (state.options.handler.reuse == Reuse::kUnchanged && !state.steps.empty())
    args.reuse_from = state.folder_of(state.steps.back().step);
  auto write = state.handler.start_items(state.folder_of(step), args,
                                         state.options.enable_async_checkpointing);
  state.steps.push_back(
      {.step = step, .time = std::chrono::system_clock::now(), .metrics = options.metrics});
  std::vector<std::int64_t> unkept;
  state.looking_again([&] { unkept = state.take_unkept(); });
  state.run([&state, step, write = std::move(write), unkept = std::move(unkept)] {
    write();
    state.remove_after(step, unkept);
  });
  return true;
}

Tree CheckpointManager::restore(std::optional<std::int64_t> step, const PyTreeRestoreArgs& args,
                                std::string_view item) {
  state_->wait();
  const std::string folder = orbax::join(state_->existing(step), item);
  if (!directory_exists(folder))
    throw Error(Code::kNotFound, folder + ": the step has no such item");
  return state_->handler.restore(folder, args);
}

std::string CheckpointManager::restore_json(std::optional<std::int64_t> step,
                                            std::string_view item) {
  state_->wait();
  const std::string folder = orbax::join(state_->existing(step), item);
  for (const std::string_view name : {kJsonItemFile, std::string_view("data.json"), item}) {
    const std::string file = orbax::join(folder, name);
    if (!file_exists(file)) continue;
    std::string text(as_text(read_file(file, orbax::kMaxMetadataFile)));
    with_context([&] { return file; }, [&] { (void)parse_json(text); });
    return text;
  }
  throw Error(Code::kNotFound, folder + ": the step has no such JSON item");
}

void CheckpointManager::remove(std::int64_t step) {
  if (state_->options.read_only) return;
  if (!state_->has(step))
    throw Error(Code::kNotFound, state_->folder_of(step) + ": there is no such step");
  state_->wait();
  state_->remove(step);
  std::erase_if(state_->steps, [&](const StepInfo& info) { return info.step == step; });
}

void CheckpointManager::reload() { state_->reload(); }

void CheckpointManager::wait_until_finished() { state_->wait(); }

void CheckpointManager::check_for_errors() {
  if (!state_->is_running()) state_->wait();
}

bool CheckpointManager::is_saving_in_progress() const { return state_->is_running(); }

void CheckpointManager::close() {
  state_->closed = true;
  state_->wait();
  state_->handler.close();
}

}  // namespace cairn::inline v0
