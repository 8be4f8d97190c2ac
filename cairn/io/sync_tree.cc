// sync_tree.cc -- syncs a folder and everything below it with as few waits as possible.
//
// An fsync writes a file's bytes, waits for them, and then waits for the file system's journal.
// With one fsync after the other, the save would wait for the journal once per file. Instead, all
// bytes are first submitted and then awaited. The first sync after that writes the journal for all
// files, and the others find nothing to do. For thousands of files even this is slow (10,000
// parameters in folders: 2.6 s). In that case the whole file system is synced once (0.4 s), if that
// gives the same guarantee.
//
// A file with a second name belongs to an older checkpoint, too (orbax/reuse/), and was synced with
// that. It has a new name, which the sync of its folder makes durable. An fsync of such a file costs
// a flush of the disk (4 ms) for nothing. Its bytes are awaited all the same: the older checkpoint
// may have been saved without syncing.
#include <cairn/base/executor.h>
#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMany = 256;
constexpr std::size_t kWaiting = 32;  // the maximum number of concurrent syncs

class Opened {
 public:
  explicit Opened(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) fail_file_call(path, "open it to sync it", errno);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() { close(fd_); }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

// Since Linux 5.8, syncfs reports failed writes.
bool syncfs_reports_errors() {
  utsname about{};
  int major = 0;
  int minor = 0;
  // NOLINTNEXTLINE(cert-err34-c,cppcoreguidelines-pro-type-vararg): a non-number leaves 0
  if (uname(&about) != 0 || std::sscanf(about.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 8);
}

// Returns false if the file system is not known to guarantee the same as fsync. (FUSE, for example,
// does not ask its server.)
bool sync_file_system(const std::string& path) {
  static constexpr std::array<std::uint32_t, 3> kTrusted = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,
                                                            BTRFS_SUPER_MAGIC};
  const Opened folder(path);
  struct statfs about {};
  if (fstatfs(folder.fd(), &about) != 0 || !syncfs_reports_errors()) return false;
  if (std::ranges::find(kTrusted, static_cast<std::uint32_t>(about.f_type)) == kTrusted.end())
    return false;
  if (syncfs(folder.fd()) != 0) fail_file_call(path, "sync its file system", errno);
  return true;
}

bool has_second_name(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 1;
}

}  // namespace

void sync_tree(const std::string& path) {
  std::vector<std::string> files;
  std::vector<std::string> folders;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_symlink()) continue;
    if (at->is_regular_file()) files.push_back(at->path().string());
    if (at->is_directory()) folders.push_back(at->path().string());
  }
  if (error) fail_file_call(path, "list it", error.value());
  folders.push_back(path);
  sync_some(path, std::move(files), folders);
}

void sync_some(const std::string& path, std::vector<std::string> files,
               const std::vector<std::string>& folders) {
  const auto shared =
      std::stable_partition(files.begin(), files.end(), std::not_fn(has_second_name));
  const auto own = static_cast<std::size_t>(shared - files.begin());
  if (own + folders.size() > kMany && sync_file_system(path)) return;
  // This is only advice: the later syncs do whatever these calls do not do.
  for (const std::string& file : files)
    sync_file_range(Opened(file).fd(), 0, 0, SYNC_FILE_RANGE_WRITE);
  constexpr unsigned kWait =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (const std::string& file : files)
    // The system reports a failed write only to the first caller that asks, and to no descriptor
    // that is opened after that.
    if (sync_file_range(Opened(file).fd(), 0, 0, kWait) != 0 &&
        (errno == EIO || errno == ENOSPC || errno == EDQUOT))
      fail_file_call(file, "sync it", errno);
  files.resize(own);
  files.insert(files.end(), folders.begin(), folders.end());
  // Each sync waits for the disk and not for a processor; the system writes concurrent syncs
  // together.
  Executor waiting(std::clamp<std::size_t>(files.size() / 64, 1, kWaiting));
  waiting.for_each(files.size(), [&](std::size_t i) { sync_path(files[i]); });
}

}  // namespace cairn::inline v0
