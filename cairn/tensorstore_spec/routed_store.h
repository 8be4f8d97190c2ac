// routed_store.h -- a database whose manifest is in a different store from its data files.
#pragma once

#include <cairn/storage/kvstore.h>

namespace cairn::inline v0::tensorstore_spec {

// Returns a store that uses `manifest` for the keys manifest.ocdbt and manifest.<generation>, and
// `base` for all other keys.
StorePtr route_manifest(StorePtr base, StorePtr manifest);

}  // namespace cairn::inline v0::tensorstore_spec
