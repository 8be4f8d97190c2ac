// decisions.cc -- whether a step is saved: what the options ask for, in all processes.
#include <cairn/orbax/manager/checkpoint_manager/state.h>

#include <cairn/base/byte_io.h>
#include <cairn/distributed/consistency.h>

#include <cstdint>
#include <string>
#include <utility>

namespace cairn::inline v0 {
namespace {

using distributed::StepKind;

Bytes message_of(std::uint64_t digest, orbax::SaveDecision decision) {
  return std::move(ByteWriter().u64(digest).u8(decision.is_wanted).u8(decision.is_preempted))
      .take();
}

orbax::SaveDecision decision_of(ByteView message) {
  ByteReader in(message);
  in.take(sizeof(std::uint64_t));
  const bool is_wanted = in.u8() != 0;
  return {is_wanted, in.u8() != 0};
}

}  // namespace

bool CheckpointManager::State::should_save(std::int64_t step, bool preempted) {
  if (options.read_only) {
    events.skipped_as_read_only("save");
    return false;
  }
  if (!steps.empty() && steps.back().step >= step) return false;
  if (saves.needs_details == StepDetails::kOfAll) read_details();
  if (saves.needs_details == StepDetails::kOfLast && !steps.empty())
    if (const auto there = look()) read_details(*there, steps.back());
  return saves.decide(
      {.step = step, .saved = steps, .is_saving = running.is_running(), .is_preempted = preempted});
}

orbax::SaveDecision CheckpointManager::State::decide_here(std::int64_t step, bool force) {
  if (closed) throw Error(Code::kFailedPrecondition, "the manager is closed and cannot save");
  const bool preempted = is_preempted(step);
  return {force || should_save(step, preempted), preempted};
}

orbax::SaveDecision CheckpointManager::State::decide(std::int64_t step, bool force) {
  if (group.is_single()) return decide_here(step, force);
  distributed::ConsistencyCheck consistency("saves");
  const auto messages = group.gather("steps: decide", StepKind::kControl, [&] {
    const orbax::SaveDecision here = decide_here(step, force);
    consistency.add("the processes do not save the same step", "step " + std::to_string(step));
    return message_of(consistency.digest(), here);
  });
  consistency.check(messages, group, "steps: other steps");
  orbax::SaveDecision all;
  for (const Bytes& message : messages) {
    const orbax::SaveDecision one = decision_of(message);
    all.is_wanted |= one.is_wanted;
    all.is_preempted |= one.is_preempted;
  }
  return all;
}

}  // namespace cairn::inline v0
