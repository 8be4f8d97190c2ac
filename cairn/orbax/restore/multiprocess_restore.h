// multiprocess_restore.h -- a restore in which type handlers meet the other processes: what happens
// around that is steps of all, too, so that nobody waits for one that has failed before it came
// there.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/handlers.h>
#include <cairn/tree.h>

#include <functional>
#include <optional>
#include <string>

namespace cairn::orbax {

class MultiprocessRestore {
 public:
  // Meets nobody, and does all work as if alone, unless a handler of the registry restores together
  // with others.
  MultiprocessRestore(const MultiprocessingOptions& processes, const TypeHandlerRegistry& registry);

  // All of the restore. What it throws before begin() fails in all processes.
  Tree run(const std::function<Tree()>& restore);
  // Within run, once: `plan` tells what is restored together, the same in all processes. Throws
  // invalid_argument if it is not.
  void begin(const std::function<std::string()>& plan);
  // Then: what needs no other process.
  void each_for_itself(const std::function<void()>& work) const;

 private:
  std::optional<distributed::ProcessGroup> group_;  // none: alone
  bool begun_ = false;
};

}  // namespace cairn::orbax
