// copy_value.h -- copies a value from one key of a store to another.
#pragma once

#include <cairn/storage/kvstore.h>

#include <string>

namespace cairn::inline v0 {

// Copies a value inside the store if the store can, else through this machine, 16 MiB at a time.
// The version and the size of `value` may be unknown ("", 0). Throws unavailable if the value is
// gone.
void copy_value(KvStore& store, const StoredValue& value, const std::string& to);

}  // namespace cairn::inline v0
