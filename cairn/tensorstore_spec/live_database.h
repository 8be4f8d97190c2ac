// live_database.h -- a database as a store that can be written: reads see the newest version, each
// write is a commit.
#pragma once

#include <cairn/storage/kvstore.h>
#include <cairn/tensorstore_spec/store_location.h>

#include <memory>

namespace cairn::inline v0::tensorstore_spec {

// Opens the database, which need not exist yet. The spec must not name a version.
StorePtr open_live_database(std::shared_ptr<const Database> database);

}  // namespace cairn::inline v0::tensorstore_spec
