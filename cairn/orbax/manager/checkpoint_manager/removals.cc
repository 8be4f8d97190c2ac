// removals.cc -- which steps are no longer kept, and their removal.
#include <cairn/orbax/manager/checkpoint_manager/state.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/base/text.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

using distributed::StepKind;

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

std::vector<std::int64_t> CheckpointManager::State::unkept() {
  const auto messages = group.gather("steps: keep", StepKind::kControl, [&] {
    return group.is_primary() ? message_of(select_unkept()) : Bytes();
  });
  return steps_of(messages[group.writes_separately() ? group.index() : group.primary()]);
}

std::vector<std::int64_t> CheckpointManager::State::select_unkept() {
  const Stopwatch watch;
  if (keeps.needs_details) read_details();
  const std::vector<bool> kept = keeps.select(steps);
  if (kept.size() != steps.size())
    invalid_argument("the keep policy returned " + std::to_string(kept.size()) + " decisions for " +
                     std::to_string(steps.size()) + " steps");
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (!kept[i]) chosen.push_back(steps[i].step);
  const auto needed = needed_by_links(chosen);
  std::erase_if(chosen, [&](std::int64_t step) { return needed.contains(name_of(step)); });
  events.chosen(steps.size(), chosen.size(), watch.elapsed());
  return chosen;
}

std::map<std::string, std::string> CheckpointManager::State::needed_by_links(
    const std::vector<std::int64_t>& chosen) {
  const auto there = chosen.empty() ? nullptr : look();
  if (there == nullptr) return {};
  std::set<std::string> names, chosen_names;
  for (const StepInfo& info : steps) names.insert(name_of(info.step));
  for (const IncompleteStep& folder : incomplete) names.emplace(cairn::name_of(folder.path));
  for (const std::int64_t step : chosen) chosen_names.insert(name_of(step));
  return there->needed_by_links(links, names, chosen_names);
}

void CheckpointManager::State::remove(const std::vector<std::int64_t>& gone) const {
  group.step("steps: remove", StepKind::kIo, [&] {
    if (group.is_primary()) remove_here(gone);
  });
}

void CheckpointManager::State::remove_here(const std::vector<std::int64_t>& gone) const {
  std::optional<Error> first;
  for (const std::int64_t step : gone) {
    auto removed = try_call([&] { return remove_here(step), true; });
    if (!removed && !first) first = removed.error();
  }
  if (first) throw Error(*first);
}

void CheckpointManager::State::remove_here(std::int64_t step) const {
  const auto there = look();
  if (there == nullptr) return;
  if (options.todelete_subdir)
    there->set_step_aside(name_of(step), *options.todelete_subdir, ForeignFiles::kRefuse);
  else
    there->remove_step(name_of(step), options.handler.commit_protocol, ForeignFiles::kRefuse);
  observe(options.handler.observer, EventLevel::kInfo, "steps.removed",
          {{"path", root}, {"step", step}});
}

void CheckpointManager::State::remove_after(std::int64_t saved,
                                            const std::vector<std::int64_t>& gone) const {
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

void CheckpointManager::State::check_removable(std::int64_t step) {
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

void CheckpointManager::State::remove(std::int64_t step) {
  std::erase_if(incomplete, [&](const auto& folder) { return folder.step == step; });
  publish();
  if (!options.enable_background_delete) {
    remove(std::vector{step});
    return forget({step});
  }
  forget({step});
  going.insert(step);
  removing.start([this, step] { remove(std::vector{step}); });
}

}  // namespace cairn::inline v0
