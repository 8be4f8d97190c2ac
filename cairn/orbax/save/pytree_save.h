// pytree_save.h -- saves a tree to the files of one item, through type handlers.
#pragma once

#include <cairn/pytree_checkpoint_handler.h>

#include <cairn/base/executor.h>
#include <cairn/distributed/process_group.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// The settings that all functions of one save share.
struct SaveContext {
  const PyTreeCheckpointHandlerOptions* options = nullptr;
  const TypeHandlerRegistry* registry = nullptr;
  const distributed::ProcessGroup* group = nullptr;
  Executor* executor = nullptr;  // null: the default executor of the process
  std::shared_ptr<ByteLimiter> limiter;
  std::shared_ptr<ByteLimiter> device_host_limiter;
  std::uint64_t memory = 0;
  bool background = false;
};

// The part of a save that runs after the caller has continued.
struct PreparedSave {
  // Writes everything within `memory` bytes of working memory. With several processes, returns when
  // all of them have written.
  std::function<void(std::uint64_t memory)> write;
  std::string description;  // in words; must be equal in all processes
};

// Does the work that must be complete before the caller continues. Everything that the context
// points to must live until PreparedSave::write returns.
PreparedSave prepare_save(const std::string& directory, const PyTreeSaveArgs& args,
                          const SaveContext& context);

}  // namespace cairn::inline v0::orbax
