// directory.cc -- folders over the kernel's calls.
#include <cairn/base/directory.h>
#include <cairn/base/executor.h>
#include <cairn/base/file.h>
#include <cairn/error.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWaiting = 32;  // syncs at a time

[[noreturn]] void fail(const std::string& path, const std::string& doing, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : error == EEXIST || error == ENOTEMPTY ? Code::kAlreadyExists : Code::kIo;
  throw Error(code, path + ": cannot " + doing + ": " + std::generic_category().message(error));
}

void sync_one(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) fail(path, "open it to sync it", errno);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  // Some network file systems have no sync of folders and say so.
  if (result != 0 && error != EINVAL && error != EROFS && error != ENOTSUP) fail(path, "sync it", error);
}

void sync_parent(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  sync_one(parent.empty() ? "." : parent);
}

// The kernel's rename with flags; ENOSYS and EINVAL where the kernel or the file system does not know them.
int rename_with(const std::string& from, const std::string& to, unsigned flags) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

bool is_unknown(int error) { return error == EINVAL || error == ENOSYS || error == ENOTSUP; }

}  // namespace

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail(path, "remove it", error.value());
}

void sync_tree(const std::string& path) {
  std::vector<std::string> below;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (at->is_regular_file() || at->is_directory()) below.push_back(at->path().string());
  if (error) fail(path, "list it", error.value());
  // Each waits for the disk, not for a processor; those that wait together are written together.
  Executor waiting(std::clamp<std::size_t>(below.size() / 64, 1, kWaiting));
  waiting.for_each(below.size(), [&](std::size_t i) { sync_one(below[i]); });
  sync_one(path);
}

void rename_tree(const std::string& from, const std::string& to) {
  int error = rename_with(from, to, RENAME_NOREPLACE);
  if (is_unknown(error)) {
    // Without the flag, a folder that is not empty still refuses to be replaced.
    if (file_exists(to)) fail(to, "be replaced", EEXIST);
    error = rename_with(from, to, 0);
  }
  if (error != 0) fail(to, "rename " + from + " to it", error);
  sync_parent(to);
}

bool swap_trees(const std::string& a, const std::string& b) {
  const int error = rename_with(a, b, RENAME_EXCHANGE);
  if (is_unknown(error)) return false;
  if (error != 0) fail(b, "swap it with " + a, error);
  sync_parent(b);
  return true;
}

}  // namespace cairn
