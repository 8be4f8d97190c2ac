// pytree_transform.h -- restoring another tree than is stored: by transforms, or by a function of
// the user's.
#pragma once

#include <cairn/orbax/restore/pytree_restore.h>

#include <memory>

namespace cairn::orbax {

// Both are the older way of restoring: `item` is to take missing chunks for fill values.
Tree restore_transformed(const std::shared_ptr<const StoredItem>& item,
                         const PyTreeRestoreArgs& args, const RestoreContext& context);
Tree restore_by_function(const std::shared_ptr<const StoredItem>& item,
                         const PyTreeRestoreArgs& args, const RestoreContext& context);

}  // namespace cairn::orbax
