// pytree_restore.h -- one item of a checkpoint back into a tree, through type handlers.
#pragma once

#include <cairn/orbax/read/stored_item.h>
#include <cairn/pytree_checkpoint_handler.h>

#include <functional>
#include <memory>
#include <string>

namespace cairn::orbax {

class MultiprocessRestore;

struct RestoreContext {
  const PyTreeCheckpointHandlerOptions* options = nullptr;
  const TypeHandlerRegistry* registry = nullptr;
  Executor* executor = nullptr;  // null: the process's
  std::shared_ptr<ByteLimiter> limiter;
  std::uint64_t memory = 0;
  MultiprocessRestore* multiprocess = nullptr;  // while an item is restored
};

// The item in `directory`, opened without a look at its arrays. Throws not_found if there is no
// such folder.
std::shared_ptr<const StoredItem> open_stored_item(const std::string& directory,
                                                   const RestoreContext& context);

// What handlers are told of a stored leaf.
ParamInfo stored_param_info(const std::shared_ptr<const StoredItem>& item, const TensorInfo& leaf,
                            const RestoreContext& context);

// The stored structure: custom leaves that hold the position of a leaf (std::size_t) in
// item.tensors, placeholders, empty nodes. With rich types its tuples are tuples.
Tree stored_tree(const PytreeItem& item, bool rich_types);

PyTreeMetadata item_metadata(const std::string& directory, const RestoreContext& context);

// `look` is called first, and throws if there is nothing to be restored: where processes restore
// together, all learn of it.
Tree restore_item(const std::string& directory, const PyTreeRestoreArgs& args,
                  RestoreContext context, const std::function<void()>& look);

}  // namespace cairn::orbax
