// pytree_save.h -- a tree to the files of one item, through type handlers.
#pragma once

#include <cairn/pytree_checkpoint_handler.h>

#include <cairn/base/executor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn::checkpoint {

struct SaveContext {
  const PyTreeCheckpointHandlerOptions* options = nullptr;
  const TypeHandlerRegistry* registry = nullptr;
  Executor* executor = nullptr;  // null: the process's
  std::shared_ptr<ByteLimiter> limiter;
  std::shared_ptr<ByteLimiter> device_host_limiter;
  std::uint64_t memory = 0;
  bool background = false;
};

// Does what must be done before the caller goes on; the rest is what is returned: everything is written when that has run.
std::function<void()> start_save(const std::string& directory, const PyTreeSaveArgs& args, const SaveContext& context);

}  // namespace cairn::checkpoint
