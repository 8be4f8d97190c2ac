// step_list.cc -- which steps there are, and what is known about them.
#include <cairn/orbax/manager/checkpoint_manager/state.h>

#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/orbax/manager/manager_options.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace cairn::inline v0 {
namespace {

using distributed::StepKind;

}  // namespace

void CheckpointManager::State::reload() {
  const Stopwatch watch;
  links.forget();
  // What ends while the directory is listed is in the list or not, so it counts as running.
  const bool is_saving = running.is_running();
  if (!is_saving && !removing.is_running()) going.clear();
  take(stored_steps(), is_saving, watch);
}

void CheckpointManager::State::take(orbax::FoundSteps found, bool is_saving,
                                    const Stopwatch& watch) {
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
  publish();
  events.found(steps.size(), watch.elapsed());
}

void CheckpointManager::State::publish() {
  orbax::FoundSteps shown{.complete = {}, .incomplete = incomplete};
  for (const StepInfo& info : steps) shown.complete.push_back(info.step);
  listing.set(std::move(shown));
}

orbax::FoundSteps CheckpointManager::State::stored_steps() const {
  const auto there = look();
  if (there == nullptr) return {};
  const Workers workers(options.handler.resources.threads);
  return orbax::find_steps(
      *there, {options.step_name_format, orbax::commit_rule_of(options), options.step_format},
      workers.executor());
}

orbax::FoundSteps CheckpointManager::State::steps_for_all() const {
  if (store == nullptr || group.is_single() || group.writes_separately()) return stored_steps();
  const auto messages = group.gather("steps: list", StepKind::kIo, [&] {
    return group.is_primary() ? orbax::message_of(stored_steps()) : Bytes();
  });
  return orbax::found_steps_of(messages[group.primary()]);
}

void CheckpointManager::State::read_details() {
  if (has_details) return;
  if (const auto there = look()) {
    const Workers workers(options.handler.resources.threads);
    there->for_each(steps.size(), workers.executor(),
                    [&](std::size_t i) { read_details(*there, steps[i]); });
  }
  has_details = true;
}

void CheckpointManager::State::read_details(const orbax::RunRoot& there, StepInfo& info) const {
  if (info.time == std::chrono::system_clock::time_point())
    info = there.read_step(name_of(info.step), info.step);
}

std::string CheckpointManager::State::existing(std::optional<std::int64_t> step) const {
  if (!step && steps.empty())
    throw Error(Code::kNotFound,
                root + (incomplete.empty() ? ": has no steps"
                                           : ": has no complete step; step " +
                                                 std::to_string(incomplete.back().step) + ": " +
                                                 incomplete.back().reason));
  const std::int64_t wanted = step ? *step : steps.back().step;
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

std::string CheckpointManager::State::existing(std::optional<std::int64_t> step,
                                               std::string_view item) const {
  const std::string above = existing(step);
  std::string folder = orbax::join(above, item);
  const auto there = look();
  if (there == nullptr || !there->has_item(std::string(cairn::name_of(above)), item))
    throw Error(Code::kNotFound, folder + ": the step has no such item");
  return folder;
}

}  // namespace cairn::inline v0
