// local_path.h -- the path on this machine that a user's path or URL names.
#pragma once

#include <string>

namespace cairn::inline v0 {

// Returns a plain path as it is, and file:///path as /path. Throws unimplemented for URLs of other
// schemes.
std::string local_path(const std::string& path);

}  // namespace cairn::inline v0
