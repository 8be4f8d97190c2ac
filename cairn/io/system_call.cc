// system_call.cc -- turns the errors of file system calls into Errors.

#include <cairn/io/system_call.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <sys/stat.h>
#include <time.h>  // clock_gettime

#include <array>
#include <system_error>

namespace cairn::inline v0 {

void fail_file_call(const std::string& path, const std::string& doing, int error) {
  const bool taken = error == EEXIST || error == ENOTEMPTY;
  fail_file_call(path, doing, error,
                 error == ENOENT ? Code::kNotFound
                 : taken         ? Code::kAlreadyExists
                                 : Code::kIo);
}

void fail_file_call(const std::string& path, const std::string& doing, int error, Code code) {
  throw Error(code, path + ": cannot " + doing + ": " + std::generic_category().message(error),
              error);
}

const char* irregular_kind(mode_t mode) {
  if (S_ISREG(mode)) return "";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void fail_irregular(const std::string& path, mode_t mode) {
  throw Error(Code::kDataLoss,
              path + ": is not a regular file (it is " + irregular_kind(mode) + ")");
}

void fail_to_create(const std::string& path, int error) {
  if (error == ENOENT)
    throw Error(Code::kNotFound, path + ": cannot write it: there is no folder " + parent_of(path),
                error);
  fail_file_call(path, "create a file in " + parent_of(path), error);
}

void check_file_range(const std::string& path, std::uint64_t offset, std::uint64_t length) {
  if (offset > kMaxFileOffset || length > kMaxFileOffset - offset)
    throw Error(Code::kOutOfRange, path + ": bytes at " + std::to_string(offset) +
                                       " are beyond the largest possible file size");
}

bool stamp_descriptor(int descriptor, const std::string& path) {
  std::array<timespec, 2> times{};
  times[0].tv_nsec = UTIME_OMIT;
  clock_gettime(CLOCK_REALTIME, &times[1]);
  struct stat status {};
  if (futimens(descriptor, times.data()) != 0 || fstat(descriptor, &status) != 0)
    fail_file_call(path, "set the time of the file", errno);
  return status.st_mtim.tv_sec == times[1].tv_sec && status.st_mtim.tv_nsec == times[1].tv_nsec;
}

}  // namespace cairn::inline v0
