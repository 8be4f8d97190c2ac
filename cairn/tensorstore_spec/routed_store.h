// routed_store.h -- a database whose manifest is kept in another store than its data files.
#pragma once

#include <cairn/kvstore.h>

namespace cairn::tensorstore_spec {

// `manifest` for the keys manifest.ocdbt and manifest.<generation>, `base` for all others.
StorePtr route_manifest(StorePtr base, StorePtr manifest);

}  // namespace cairn::tensorstore_spec
