// multiprocess_restore.cc -- the collective steps before type handlers communicate.

#include <cairn/orbax/restore/multiprocess_restore.h>

#include <cairn/distributed/consistency.h>

#include <algorithm>

namespace cairn::inline v0::orbax {

using distributed::StepKind;

MultiprocessRestore::MultiprocessRestore(const MultiprocessingOptions& processes,
                                         const TypeHandlerRegistry& registry) {
  const auto handlers = registry.handlers();
  if (std::any_of(handlers.begin(), handlers.end(),
                  [](const TypeHandlerPtr& handler) { return handler->restores_together(); }))
    group_.emplace(processes);
}

Tree MultiprocessRestore::run(const std::function<Tree()>& restore) {
  Tree out;
  try {
    out = restore();
  } catch (...) {
    if (!begun_) begin([]() -> std::string { throw; });
    throw;
  }
  if (!begun_) begin([] { return std::string(); });
  return out;
}

void MultiprocessRestore::begin(const std::function<std::string()>& plan) {
  begun_ = true;
  if (!group_) {
    plan();
    return;
  }
  distributed::ConsistencyCheck consistency("restores");
  const auto messages = group_->gather("restore: start", StepKind::kControl, [&] {
    const std::string types = plan();
    consistency.add("the processes do not restore the same leaves",
                    types.empty() ? "nothing" : "leaves of type " + types);
    return consistency.message();
  });
  consistency.check(messages, *group_, "restore: other types");
}

void MultiprocessRestore::each_for_itself(const std::function<void()>& work) const {
  if (!group_) return work();
  group_->step("restore: host leaves", StepKind::kIo, work);
}

}  // namespace cairn::inline v0::orbax
