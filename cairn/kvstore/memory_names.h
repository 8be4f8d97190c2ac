// memory_names.h -- the stores that memory://NAME names in this process.
#pragma once

#include <cairn/storage/kvstore.h>

#include <string>

namespace cairn::inline v0 {

// The store of this name; a new one, if the name is not used yet.
StorePtr named_memory_store(const std::string& name);
// Makes the name refer to another store from now on, such as one that fails in a test.
void name_memory_store(const std::string& name, StorePtr store);

}  // namespace cairn::inline v0
