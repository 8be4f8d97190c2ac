// manager_tool.cc -- drives a CheckpointManager: reads operations, a line each, and answers at
// once.
//
// {"op": "open", "root": path or URL, "options": {"interval", "on_steps", "max_to_keep", "period",
//   "seconds", "best", "mode", "without_metrics", "prefix", "digits", "todelete", "read_only",
//   "async", "metadata", "cleanup", "no_metrics", "keep": policy, "save": policy, "create",
//   "background", "reuse", "ocdbt", "zarr3", "in_place", "legacy", "preempted_at": n,
//   "meeting": folder in which two processes meet, "process": 0 or 1,
//   "sigterm": bool, a SIGTERM preempts}}; every option may be missing
// {"op": "save", "step": n, "metrics": {...} | null, "force": bool, "json": text | null,
//   "tree": path | null, "default": bool, "background": ms}: a tree at the path of a checkpoint, or
//   one of default, is saved as the item "default", any other as "state"; with "background", the
//   save takes at least these milliseconds, and is not waited for
// {"op": "should_save", "step": n}; it and "save" may have "preempted": true
// {"op": "remove", "step": n} | {"op": "reload"} | {"op": "reached_preemption"}
// {"op": "restore", "step": n | null} | {"op": "metrics", "step": n} | {"op": "root_metadata"}
// {"op": "metadata", "step": n}: metadata_json.h
// {"op": "events"}: the events of the manager since the last such operation
//  -> {"result": what it returned, "steps": [...], "latest": n, "best": n, "names": [in the root],
//      "reused": number of values that a save of a tree has shared}
//     or {"error", "code"}
#include <cairn/checkpoint_manager.h>
#include <cairn/distributed.h>
#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/open.h>
#include <cairn/storage/kvstore.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "tests/interop/tools/answer_jobs.h"
#include "tests/interop/tools/metadata_json.h"

namespace {

using namespace cairn;

const Json* member(const Json& json, std::string_view name) {
  const Json* found = json.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}
std::int64_t number(const Json& json, std::string_view name) {
  return *json.find(name)->as_int64();
}
std::optional<std::size_t> count(const Json& json, std::string_view name) {
  const Json* found = member(json, name);
  if (found == nullptr) return std::nullopt;
  return static_cast<std::size_t>(*found->as_int64());
}
bool flag(const Json& json, std::string_view name, bool otherwise) {
  const Json* found = member(json, name);
  return found == nullptr ? otherwise : *found->as_bool();
}
std::string text(const Json& json, std::string_view name) {
  const Json* found = member(json, name);
  return found == nullptr ? "" : *found->as_string();
}
BestMode mode_of(const Json& json) {
  return text(json, "mode") == "min" ? BestMode::kMin : BestMode::kMax;
}
std::set<std::int64_t> numbers(const Json& list) {
  std::set<std::int64_t> found;
  for (const Json& one : *list.as_array()) found.insert(*one.as_int64());
  return found;
}

bool decide(const Json& json, const SaveQuestion& question) {
  const auto n = number(json, "n");
  if (text(json, "kind") == "gap")
    return question.saved.empty() || question.step - question.saved.back().step >= n;
  const auto with_metrics = std::ranges::count_if(
      question.saved, [](const StepInfo& info) { return info.metrics.has_value(); });
  return with_metrics % 2 == n % 2;
}

SavePolicy save_policy_of(const Json& json) {
  const std::string kind = text(json, "kind");
  if (kind == "interval") return save_policy::fixed_interval(number(json, "n"));
  if (kind == "steps") return save_policy::specific_steps(numbers(*json.find("steps")));
  if (kind == "continuous")
    return save_policy::continuous(std::chrono::seconds(count(json, "n").value_or(0)));
  if (kind == "preemption") return save_policy::preemption();
  if (kind == "initial") return save_policy::initial();
  if (kind != "any") return [json](const SaveQuestion& question) { return decide(json, question); };
  std::vector<SavePolicy> policies;
  for (const Json& one : *json.find("of")->as_array()) policies.push_back(save_policy_of(one));
  return save_policy::any_of(std::move(policies));
}

KeepPolicy policy_of(const Json& json) {
  const std::string kind = text(json, "kind");
  if (kind == "all") return keep_policy::all();
  if (kind == "latest") return keep_policy::latest(*count(json, "n"));
  if (kind == "every_n_steps")
    return keep_policy::every_n_steps(number(json, "n"), flag(json, "exact", true),
                                      count(json, "most"));
  if (kind == "closest")
    return keep_policy::every_n_steps_closest(number(json, "n"), count(json, "most"));
  if (kind == "every") return keep_policy::every(std::chrono::seconds(number(json, "n")));
  if (kind == "latest_duration")
    return keep_policy::latest_duration(std::chrono::seconds(number(json, "n")));
  if (kind == "custom") return keep_policy::custom_steps(numbers(*json.find("steps")));
  if (kind == "best")
    return keep_policy::best(*count(json, "n"), metric("m"), mode_of(json),
                             flag(json, "without_metrics", true));
  std::vector<KeepPolicy> policies;
  for (const Json& one : *json.find("of")->as_array()) policies.push_back(policy_of(one));
  return keep_policy::any_of(std::move(policies));
}

CheckpointManagerOptions options_of(const Json& json) {
  CheckpointManagerOptions options;
  if (const auto n = count(json, "interval"))
    options.save_interval_steps = static_cast<std::int64_t>(*n);
  if (const Json* steps = member(json, "on_steps")) options.save_on_steps = numbers(*steps);
  options.max_to_keep = count(json, "max_to_keep");
  if (const auto n = count(json, "period")) options.keep_period = static_cast<std::int64_t>(*n);
  if (const auto n = count(json, "seconds")) options.keep_time_interval = std::chrono::seconds(*n);
  if (flag(json, "best", false)) options.best_fn = metric("m");
  options.best_mode = mode_of(json);
  options.keep_checkpoints_without_metrics = flag(json, "without_metrics", true);
  options.step_name_format =
      StepNameFormat(text(json, "prefix"), count(json, "digits").value_or(0));
  if (const Json* name = member(json, "todelete")) options.todelete_subdir = *name->as_string();
  options.read_only = flag(json, "read_only", false);
  options.enable_async_checkpointing = flag(json, "async", true);
  options.root_metadata = text(json, "metadata");
  options.cleanup_tmp_directories = flag(json, "cleanup", false);
  options.prevent_write_metrics = flag(json, "no_metrics", false);
  if (const Json* policy = member(json, "keep")) options.keep_policy = policy_of(*policy);
  if (const Json* policy = member(json, "save")) options.save_policy = save_policy_of(*policy);
  options.enable_background_delete = flag(json, "background", false);
  options.create = flag(json, "create", true);
  if (flag(json, "reuse", false)) options.handler.reuse = Reuse::kUnchanged;
  if (const auto at = count(json, "preempted_at"))
    options.is_preempted = [at = static_cast<std::int64_t>(*at)](std::int64_t step) {
      return step == at;
    };
  options.handler.use_ocdbt = flag(json, "ocdbt", true);
  options.handler.use_zarr3 = flag(json, "zarr3", false);
  if (flag(json, "in_place", false))
    options.handler.commit_protocol = CommitProtocol::kCommitMarker;
  options.handler.allow_legacy_atomic_rename = flag(json, "legacy", false);
  if (member(json, "meeting") != nullptr)
    options.handler.multiprocessing_options.coordinator =
        files_coordinator({.directory = text(json, "meeting"),
                           .process_index = *count(json, "process"),
                           .process_count = 2,
                           .join_timeout = std::chrono::seconds(60)});
  return options;
}

// Counts the values that saves share, and collects the events of the manager itself.
class Events {
 public:
  [[nodiscard]] Observer observer() {
    return [this](const Event& event) {
      const std::lock_guard lock(mutex_);
      if (event.name.starts_with("steps.")) events_.push_back(parse_json(event_json(event)));
      if (event.name != "save.reused") return;
      for (const EventAttribute& attribute : event.attributes)
        if (attribute.name == "values") reused_ = std::get<std::int64_t>(attribute.value);
    };
  }
  [[nodiscard]] JsonArray take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }
  [[nodiscard]] std::int64_t take_reused() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reused_, 0);
  }

 private:
  std::mutex mutex_;
  JsonArray events_;
  std::int64_t reused_ = 0;
};

Json or_null(const std::optional<std::int64_t>& n) { return n ? Json(*n) : Json(); }

Json metrics_json(const std::optional<Metrics>& metrics) {
  if (!metrics) return {};
  JsonObject object;
  for (const auto& [name, value] : *metrics) object.emplace_back(name, value);
  return object;
}

Json save(CheckpointManager& manager, const Json& job) {
  StepSaveOptions options{.force = flag(job, "force", false)};
  if (const Json* given = member(job, "metrics")) {
    options.metrics.emplace();
    for (const auto& [name, value] : *given->as_object())
      (*options.metrics)[name] = *value.as_double();
  }
  const std::int64_t step = number(job, "step");
  const PyTreeSaveArgs tree{Tree{{"x", step}}};
  CheckpointItems items{{"state", tree}};
  if (member(job, "tree") != nullptr)
    items = {{"default", PyTreeSaveArgs{load(text(job, "tree"))}}};
  if (flag(job, "default", false)) items.front().first = "default";
  if (member(job, "json") != nullptr) items.emplace_back("config", JsonItem{text(job, "json")});
  const auto background = count(job, "background");
  if (background)
    items.emplace_back("slow",
                       FilesItem{"tests.Slow", [pause = *background](const std::string&) {
                                   std::this_thread::sleep_for(std::chrono::milliseconds(pause));
                                 }});
  const bool saved = manager.save(step, items, options);
  if (!background) manager.wait_until_finished();
  return saved;
}

Json run(CheckpointManager& manager, const Json& job) {
  const std::string op = text(job, "op");
  if (op == "save") return save(manager, job);
  if (op == "should_save") return manager.should_save(number(job, "step"));
  if (op == "restore") {
    std::optional<std::int64_t> step;
    if (const Json* given = member(job, "step")) step = given->as_int64();
    const char* item = flag(job, "default", false) ? "default" : "state";
    return std::get<std::int64_t>(manager.restore(step, {}, item).at("x").value());
  }
  if (op == "reached_preemption") return manager.reached_preemption();
  if (op == "json") return manager.restore_json(number(job, "step"), "config");
  if (op == "root_metadata") return manager.root_metadata();
  if (op == "metrics") return metrics_json(manager.metrics(number(job, "step")));
  if (op == "metadata") return testing::metadata_json(manager.metadata(number(job, "step")));
  if (op == "remove") {
    manager.remove(number(job, "step"));
    manager.wait_until_finished();
  }
  if (op == "reload") manager.reload();
  return {};
}

JsonArray names_below(const std::string& root) {
  JsonArray names;
  if (root.find("://") != std::string::npos) {
    for (const std::string& folder : open_store(root)->list_level("").folders)
      names.push_back(folder.substr(0, folder.size() - 1));
    return names;
  }
  for (const DirectoryEntry& entry : Directory::open(root).list()) names.push_back(entry.name);
  return names;
}

}  // namespace

int main() {
  Events events;
  bool is_preempted = false;
  std::optional<TerminationSignal> signal;
  std::unique_ptr<CheckpointManager> manager;
  testing::answer_lines([&](const Json& job) -> Json {
    Json result;
    if (text(job, "op") == "open") {
      manager.reset();
      CheckpointManagerOptions options = options_of(*job.find("options"));
      options.handler.observer = events.observer();
      if (flag(*job.find("options"), "sigterm", false)) signal.emplace();
      options.is_preempted = [&, at = options.is_preempted](std::int64_t step) {
        return is_preempted || (at && at(step)) || (signal && signal->received());
      };
      manager = std::make_unique<CheckpointManager>(text(job, "root"), std::move(options));
    } else if (text(job, "op") == "events") {
      result = events.take();
    } else {
      (void)events.take_reused();
      is_preempted = flag(job, "preempted", false);
      result = run(*manager, job);
    }
    JsonArray steps;
    for (const std::int64_t step : manager->all_steps()) steps.push_back(step);
    JsonObject answer{{"result", std::move(result)},
                      {"steps", std::move(steps)},
                      {"latest", or_null(manager->latest_step())},
                      {"best", or_null(manager->best_step())},
                      {"names", names_below(manager->directory())}};
    if (member(job, "tree") != nullptr) answer.emplace_back("reused", events.take_reused());
    return answer;
  });
}
