// short_files.h -- finds a data file that a database refers to and that is missing or too short.
#pragma once

#include <cairn/storage/kvstore.h>

#include <string>

namespace cairn::inline v0::ocdbt {

// Reads the manifest and the nodes of the newest version, and compares the size of each data file
// with the values and nodes that they refer to. Reads no value. Returns the file and what is wrong
// with it; "" if all are there. Throws as open_ocdbt() and KvStore::list(): not_found without a
// manifest, data_loss for a manifest or a node that is damaged or missing.
std::string find_short_file(const StorePtr& base);

}  // namespace cairn::inline v0::ocdbt
