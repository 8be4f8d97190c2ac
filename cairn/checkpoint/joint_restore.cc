// joint_restore.cc -- the steps before type handlers meet.
#include <cairn/checkpoint/joint_restore.h>

#include <algorithm>
#include <exception>

namespace cairn::checkpoint {

using distributed::Before;

JointRestore::JointRestore(const MultiprocessingOptions& processes, const TypeHandlerRegistry& registry) {
  const auto handlers = registry.handlers();
  if (std::any_of(handlers.begin(), handlers.end(), [](const TypeHandlerPtr& handler) { return handler->restores_together(); }))
    team_.emplace(processes);
}

Tree JointRestore::run(const std::function<Tree()>& restore) {
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

void JointRestore::begin(const std::function<std::string()>& plan) {
  begun_ = true;
  if (!team_) {
    plan();
    return;
  }
  const auto said = team_->exchange("restore: start", Before::kShortWork, [&] {
    const std::string together = plan();
    return Bytes(as_bytes(together).begin(), as_bytes(together).end());
  });
  const auto text = [&](std::size_t p) {
    const std::string_view types = as_text(said[p]);
    return "process " + std::to_string(p) + " restores " + (types.empty() ? "nothing" : "leaves of type " + std::string(types));
  };
  for (std::size_t p = 1; p < said.size(); ++p)
    if (said[p] != said[0])
      throw Error(Code::kInvalidArgument, "the processes do not restore the same together: " + text(p) + ", " + text(0));
}

void JointRestore::each_for_itself(const std::function<void()>& work) const {
  if (!team_) return work();
  team_->step("restore: host leaves", Before::kReadingOrWriting, work);
}

}  // namespace cairn::checkpoint
