// pytree_restore.h -- restores one item of a checkpoint to a tree, through type handlers.
#pragma once

#include <cairn/orbax/byte_limiter.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/read/stored_item.h>

#include <functional>
#include <memory>
#include <string>

namespace cairn::inline v0::orbax {

class MultiprocessRestore;

// The settings that all functions of one restore share.
struct RestoreContext {
  const PyTreeCheckpointHandlerOptions* options = nullptr;
  const TypeHandlerRegistry* registry = nullptr;
  Executor* executor = nullptr;  // null: the default executor of the process
  std::shared_ptr<ByteLimiter> limiter;
  std::uint64_t memory = 0;
  MultiprocessRestore* multiprocess = nullptr;  // set while an item is restored
};

// Opens the item in `directory` without opening its arrays. Throws not_found if the folder does not
// exist.
std::shared_ptr<const StoredItem> open_stored_item(const std::string& directory,
                                                   const RestoreContext& context);

// Returns the description of a stored leaf that type handlers receive.
ParamInfo stored_param_info(const std::shared_ptr<const StoredItem>& item, const TensorInfo& leaf,
                            const RestoreContext& context);

// Returns the stored structure. Its leaves are custom leaves that hold the position of a leaf
// (std::size_t) in item.tensors, placeholders, and empty nodes. With rich types, tuples are
// restored as tuples.
Tree stored_tree(const PytreeItem& item, bool rich_types);

// Returns the metadata of the item in `directory`.
PyTreeMetadata item_metadata(const std::string& directory, const RestoreContext& context);

// Restores the item in `directory`. Calls `look` first; `look` throws if the item cannot be
// restored. If several processes restore together, the error reaches all of them.
Tree restore_item(const std::string& directory, const PyTreeRestoreArgs& args,
                  RestoreContext context, const std::function<void()>& look);

}  // namespace cairn::inline v0::orbax
