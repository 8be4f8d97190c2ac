// union.h -- several stores seen as one: the databases of a checkpoint's processes before they are
// merged.
#pragma once

#include <cairn/kvstore.h>

#include <vector>

namespace cairn::orbax {

// Read-only. Lists every part at once, when it is made. A key of several parts is the last one's,
// as in Orbax's merge.
StorePtr union_store(std::vector<StorePtr> parts);

}  // namespace cairn::orbax
