// output_file.h -- what may be in the place of a file that is about to be written.
#pragma once

#include <cairn/bytes.h>

#include <string>

namespace cairn {

// Throws already_exists, naming the path, where something other than a regular file is there: a
// directory, a symbolic link (whatever it leads to), a device, a named pipe, a socket. A rename
// would put a file in its place. Fine where nothing is there. Throws io where the system does not
// say.
void check_replaceable_file(const std::string& path);

// The same for a file that a user has named; with kFail already_exists for whatever is there.
void check_output(const std::string& path, IfExists if_exists);
[[noreturn]] void refuse_taken_name(const std::string& path);

// Whether both paths lead to one file or directory, symbolic links followed. False where nothing is
// at one of them.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace cairn
