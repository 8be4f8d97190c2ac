// system_call.h -- helpers for system calls: repeat interrupted calls, turn failures into Errors.
#pragma once

#include <cairn/error.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>

namespace cairn::inline v0 {

// Repeats f while a signal interrupts it, and returns its result. Do not use it for close(): the
// descriptor is closed even if the call is interrupted.
template <class F>
auto uninterrupted(F f) {
  while (true) {
    const auto result = f();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// Returns whether a call failed with `error` because the path does not exist.
inline bool is_absence(int error) {
  return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG;
}

// Throws "PATH: cannot DOING: REASON" for a file system call that failed with the errno `error`:
// not_found for ENOENT, already_exists for EEXIST and ENOTEMPTY, otherwise io.
[[noreturn]] void fail_file_call(const std::string& path, const std::string& doing, int error);
// The same with a code of the caller.
[[noreturn]] void fail_file_call(const std::string& path, const std::string& doing, int error,
                                 Code code);

// Returns the kind of a directory entry as words: "a pipe", "a directory", ...; "" for a regular
// file. `mode` is stat's st_mode.
const char* irregular_kind(mode_t mode);
// Throws data_loss for something else where a regular file is expected.
[[noreturn]] void fail_irregular(const std::string& path, mode_t mode);

// Throws the error of creating a file beside `path` that is to get its name. The message names
// `path`, which is what the user knows, and its folder, which does not take the file.
[[noreturn]] void fail_to_create(const std::string& path, int error);

// The largest offset of a byte in a file.
inline constexpr std::uint64_t kMaxFileOffset = std::numeric_limits<off_t>::max();

// Throws out_of_range unless a file can hold this range of bytes.
void check_file_range(const std::string& path, std::uint64_t offset, std::uint64_t length);

// As File::stamp, for an open file.
bool stamp_descriptor(int descriptor, const std::string& path);

}  // namespace cairn::inline v0
