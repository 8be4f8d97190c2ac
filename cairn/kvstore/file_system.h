// file_system.h -- what is known of the file system of a folder.
#pragma once

#include <string>

namespace cairn::inline v0 {

// A file system.
struct FileSystem {
  std::string name;        // such as "ext4"; "file system 1234" for an unknown one
  bool is_remote = false;  // another machine stores the files
};
// Returns the file system of an existing folder. Returns "an unknown file system" if the system
// does not tell.
FileSystem file_system_of(const std::string& folder);

}  // namespace cairn::inline v0
