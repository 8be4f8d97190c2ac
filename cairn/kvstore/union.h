// union.h -- presents several stores as one store. Orbax checkpoints use it for the databases of
// several processes before they are merged.
#pragma once

#include <cairn/storage/kvstore.h>

#include <vector>

namespace cairn::inline v0 {

// Returns a read-only store of all parts. Lists every part once, when the store is made. If several
// parts contain a key, the last part wins, as in Orbax's merge.
StorePtr union_store(std::vector<StorePtr> parts);

}  // namespace cairn::inline v0
