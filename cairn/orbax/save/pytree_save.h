// pytree_save.h -- a tree to the files of one item, through type handlers.
#pragma once

#include <cairn/pytree_checkpoint_handler.h>

#include <cairn/base/executor.h>
#include <cairn/distributed/process_group.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn::orbax {

struct SaveContext {
  const PyTreeCheckpointHandlerOptions* options = nullptr;
  const TypeHandlerRegistry* registry = nullptr;
  const distributed::ProcessGroup* group = nullptr;
  Executor* executor = nullptr;  // null: the process's
  std::shared_ptr<ByteLimiter> limiter;
  std::shared_ptr<ByteLimiter> device_host_limiter;
  std::uint64_t memory = 0;
  bool background = false;
};

// What a save is that goes on without its caller.
struct PreparedSave {
  // Writes everything, within so many bytes of working memory; with other processes: returns when
  // all have.
  std::function<void(std::uint64_t memory)> write;
  std::string meaning;  // in which all processes must agree, for people
};

// Does what must be done before the caller goes on. What the context points to must live until all
// is written.
PreparedSave prepare_save(const std::string& directory, const PyTreeSaveArgs& args,
                          const SaveContext& context);

}  // namespace cairn::orbax
