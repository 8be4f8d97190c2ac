// renamed.h -- presents a store with folders under other names. T5X stores each array in a folder
// that its msgpack file names, while readers look it up under the name of its leaf.
#pragma once

#include <cairn/storage/kvstore.h>

#include <map>
#include <string>

namespace cairn::inline v0 {

// Returns a read-only store with the keys of `base`, except that each key below a folder of
// `folders` (name -> folder) is below its name instead. Keys of `base` below such a name are
// hidden. Several names may have one folder.
StorePtr renamed_store(StorePtr base, const std::map<std::string, std::string>& folders);

}  // namespace cairn::inline v0
