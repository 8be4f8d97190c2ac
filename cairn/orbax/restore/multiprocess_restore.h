// multiprocess_restore.h -- coordinates a restore in which type handlers communicate with other
// processes. All processes also run the other steps of the restore as collective steps. If one
// process fails early, the others do not wait for it.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/orbax/handlers.h>
#include <cairn/tree.h>

#include <functional>
#include <optional>
#include <string>

namespace cairn::inline v0::orbax {

// The collective steps of one restore.
class MultiprocessRestore {
 public:
  // If no handler of the registry restores together with other processes, the object contacts no
  // process and does all work as a single process.
  MultiprocessRestore(const MultiprocessingOptions& processes, const TypeHandlerRegistry& registry);

  // Runs the whole restore. An error that `restore` throws before begin() fails the restore in all
  // processes.
  Tree run(const std::function<Tree()>& restore);
  // Call it once within run(). `plan` returns a description of the leaves that the processes
  // restore together; it must be equal in all processes. Throws invalid_argument if it differs.
  void begin(const std::function<std::string()>& plan);
  // Call it after begin(), for the work that each process does without the others. Errors reach all
  // processes.
  void each_for_itself(const std::function<void()>& work) const;

 private:
  std::optional<distributed::ProcessGroup> group_;  // nullopt: a single process
  bool begun_ = false;
};

}  // namespace cairn::inline v0::orbax
