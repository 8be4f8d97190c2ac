// output_file.h -- checks whether a file may be written to a path, and whether an existing file may
// be replaced.
#pragma once

#include <cairn/bytes.h>

#include <string>

namespace cairn::inline v0 {

// Throws already_exists, with the path, if something other than a regular file exists at the path:
// a directory, a symbolic link (wherever it leads), a device, a pipe, or a socket. A rename
// would replace it with a file. Returns normally if nothing exists there. Throws io if the system
// cannot tell.
void check_replaceable_file(const std::string& path);

// As check_replaceable_file, for a file that a user has named. With kFail, throws already_exists if
// anything exists at the path.
void check_output(const std::string& path, IfExists if_exists);
// Throws already_exists for a path that is taken.
[[noreturn]] void refuse_taken_name(const std::string& path);

// Returns true if both paths lead to the same file or directory, with symbolic links followed.
// Returns false if nothing exists at one of the paths.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace cairn::inline v0
