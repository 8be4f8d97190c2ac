// saves.cc -- runs one save at a time, and what follows it.
#include <cairn/orbax/manager/checkpoint_manager/state.h>

#include <cairn/orbax/layout/item_kinds.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

using distributed::StepKind;

}  // namespace

std::optional<std::chrono::system_clock::time_point> CheckpointManager::State::last_time() const {
  if (steps.empty() || steps.back().time == std::chrono::system_clock::time_point())
    return std::nullopt;
  return steps.back().time;
}

bool CheckpointManager::State::save(std::int64_t step, const StepSaveOptions& save,
                                    const std::function<void(orbax::CompositeArgs&)>& add_items) {
  const Stopwatch since_call;
  const orbax::SaveDecision decision = decide(step, save.force);
  if (decision.is_preempted) reached_preemption = true;
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
  publish();
  saving_step = step;
  looking_again([&] {
    std::vector<std::int64_t> gone = unkept();
    forget(gone);
    going.insert(gone.begin(), gone.end());
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

void CheckpointManager::State::run(std::function<void()> rest) {
  if (options.enable_async_checkpointing)
    running.start(std::move(rest));
  else
    rest();
}

void CheckpointManager::State::wait() {
  looking_again([&] {
    running.wait();
    removing.wait();
    going.clear();
  });
}

void CheckpointManager::State::wait_before(std::int64_t step) {
  if (!group.is_single() || going.contains(step)) return wait();
  looking_again([&] {
    running.wait();
    if (!options.enable_background_delete) going.clear();  // that save has removed them
    removing.check();
  });
}

}  // namespace cairn::inline v0
