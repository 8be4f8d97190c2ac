// directory.cc -- folders over the kernel's calls.
#include <cairn/base/directory.h>
#include <cairn/base/file.h>
#include <cairn/error.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace cairn {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& doing, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : error == EEXIST || error == ENOTEMPTY ? Code::kAlreadyExists : Code::kIo;
  throw Error(code, path + ": cannot " + doing + ": " + std::generic_category().message(error));
}

// The kernel's rename with flags; ENOSYS and EINVAL where the kernel or the file system does not know them.
int rename_with(const std::string& from, const std::string& to, unsigned flags) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

bool is_unknown(int error) { return error == EINVAL || error == ENOSYS || error == ENOTSUP; }

}  // namespace

std::string absolute_path(const std::string& path) {
  std::string full = fs::absolute(path).lexically_normal().string();
  while (full.size() > 1 && full.back() == '/') full.pop_back();
  return full;
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail(path, "remove it", error.value());
}

void rename_tree(const std::string& from, const std::string& to) {
  int error = rename_with(from, to, RENAME_NOREPLACE);
  if (is_unknown(error)) {
    // Without the flag, a folder that is not empty still refuses to be replaced.
    if (file_exists(to)) fail(to, "be replaced", EEXIST);
    error = rename_with(from, to, 0);
  }
  if (error != 0) fail(to, "rename " + from + " to it", error);
}

bool swap_trees(const std::string& a, const std::string& b) {
  const int error = rename_with(a, b, RENAME_EXCHANGE);
  if (is_unknown(error)) return false;
  if (error != 0) fail(b, "swap it with " + a, error);
  return true;
}

}  // namespace cairn
