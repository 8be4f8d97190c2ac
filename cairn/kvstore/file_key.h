// file_key.h -- which keys the store of a folder accepts.
#pragma once

#include <string_view>

namespace cairn::inline v0 {

// Returns why `key` cannot be the path of a file below a folder; nullptr if it can.
const char* flaw_of_file_key(std::string_view key);

}  // namespace cairn::inline v0
