// earlier_item.h -- finds the item of an earlier checkpoint with which a new item shares values.
#pragma once

#include <cairn/orbax/reuse/shared_values.h>

#include <cstddef>
#include <memory>
#include <string>

namespace cairn::inline v0::orbax {

// Opens the earlier checkpoint at `from`, and there the item with the name of `folder`, the new
// item's, or else the only tree. `is_database` tells how the new item is stored; the earlier one
// must be stored in the same way. Throws not_found, failed_precondition, data_loss: with a message
// that says why nothing can be shared.
std::unique_ptr<SharedValues> open_shared_values(const std::string& from, const std::string& folder,
                                                 bool is_database, std::size_t threads);

}  // namespace cairn::inline v0::orbax
