// output_file.cc -- checks whether a file may be written to a path.
#include <cairn/io/output_file.h>

#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <sys/stat.h>

#include <cerrno>

namespace cairn::inline v0 {
void check_replaceable_file(const std::string& path) {
  if (path.empty()) throw Error(Code::kInvalidArgument, "the path of a file to write is empty");
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;  // creating the file reports a better error
    fail_file_call(path, "stat it", errno);
  }
  if (const std::string kind = irregular_kind(status.st_mode); !kind.empty())
    throw Error(
        Code::kAlreadyExists,
        path + ": is " + kind + ", not a regular file; it is not replaced, choose another name");
}

void refuse_taken_name(const std::string& path) {
  throw Error(
      Code::kAlreadyExists,
      path +
          ": already exists; choose another name, or allow replacing it with --force (if_exists)");
}

void check_output(const std::string& path, IfExists if_exists) {
  if (if_exists == IfExists::kFail && file_exists(path)) refuse_taken_name(path);
  check_replaceable_file(path);
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat of_a {
  }, of_b{};
  return stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace cairn::inline v0
