// pytree_transform.h -- restores a tree that differs from the stored tree, by transforms or by a
// user function.
#pragma once

#include <cairn/orbax/restore/pytree_restore.h>

#include <memory>

namespace cairn::inline v0::orbax {

// Both functions implement Orbax's older transform interface. `item` must be opened so that missing
// chunks read as fill values. restore_transformed applies transforms; restore_by_function applies
// the user's function.
Tree restore_transformed(const std::shared_ptr<const StoredItem>& item,
                         const PyTreeRestoreArgs& args, const RestoreContext& context);
Tree restore_by_function(const std::shared_ptr<const StoredItem>& item,
                         const PyTreeRestoreArgs& args, const RestoreContext& context);

}  // namespace cairn::inline v0::orbax
