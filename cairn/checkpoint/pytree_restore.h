// pytree_restore.h -- one item of a checkpoint back into a tree, through type handlers.
#pragma once

#include <cairn/checkpoint/stored_item.h>
#include <cairn/pytree_checkpoint_handler.h>

#include <memory>
#include <string>

namespace cairn::checkpoint {

struct RestoreContext {
  const PyTreeCheckpointHandlerOptions* options = nullptr;
  const TypeHandlerRegistry* registry = nullptr;
  Executor* executor = nullptr;  // null: the process's
  std::shared_ptr<ByteLimiter> limiter;
  std::uint64_t memory = 0;
};

// The item in `directory`, opened without a look at its arrays. Throws not_found if there is no such folder.
std::shared_ptr<const StoredItem> open_stored_item(const std::string& directory, const RestoreContext& context);

// What handlers are told of a stored leaf.
ParamInfo stored_param_info(const std::shared_ptr<const StoredItem>& item, const TensorInfo& leaf, const RestoreContext& context);

// The stored structure: custom leaves that hold the position of a leaf (std::size_t) in item.tensors, placeholders, empty nodes. With
// rich types its tuples are tuples.
Tree stored_tree(const PytreeItem& item, bool rich_types);

PyTreeMetadata item_metadata(const std::string& directory, const RestoreContext& context);

Tree restore_item(const std::string& directory, const PyTreeRestoreArgs& args, const RestoreContext& context);

}  // namespace cairn::checkpoint
