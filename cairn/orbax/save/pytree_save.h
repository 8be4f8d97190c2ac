// pytree_save.h -- saves a tree to the files of one item, through type handlers.
#pragma once

#include <cairn/options.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <cairn/array/staging.h>
#include <cairn/base/executor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/handlers/array_writer.h>
#include <cairn/kvstore/folders/output_folder.h>
#include <cairn/orbax/save/item_writer.h>
#include <cairn/orbax/save/save_progress.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// The settings of one save.
struct SaveContext {
  SaveOptions options;              // how the item is stored, with the tree's custom metadata
  const Tree* save_args = nullptr;  // SaveArgs or None in place of each leaf; null: defaults
  bool support_rich_types = false;  // as in PyTreeMetadataOptions
  // Record an empty named tuple as None, as Orbax does where it does not support rich types.
  bool named_tuples_as_none = false;
  bool validates_merge = false;  // the merged database will be validated
  IsPrioritizedKeyFn is_prioritized_key_fn = {};
  const TypeHandlerRegistry* registry = nullptr;
  const distributed::ProcessGroup* group = nullptr;
  Executor* executor = nullptr;               // null: the default executor of the process
  std::shared_ptr<ByteLimiter> limiter = {};  // null: no limit
  bool background = false;
  std::shared_ptr<StagingPool> staging = {};  // for the copies of a background save; null: none
  Observer observer = {};                     // null: none
  ItemReuse reuse = {};
  SaveProgress* progress = nullptr;  // of the whole save; null: none
};

// The memory that a save may use. Equal in all processes, because the chunks depend on it.
struct WriteLimits {
  std::uint64_t memory = 0;  // bytes of working memory
  handlers::DeviceCopies copies = {};
};

// The part of a save that runs after the caller has continued.
struct PreparedSave {
  // Writes everything within the limits. With several processes, returns when all of them have
  // written. Call it once.
  std::function<void(const WriteLimits&)> write;
  std::string description;  // in words; must be equal in all processes
};

// Does the work that must be complete before the caller continues: passes the leaves to their type
// handlers. What the context points to must live until PreparedSave::write returns.
PreparedSave prepare_save(const OutputFolder& directory, const Tree& tree,
                          const SaveContext& context);

}  // namespace cairn::inline v0::orbax
