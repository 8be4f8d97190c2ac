// sync_tree.cc -- syncs a folder and everything below it with as few waits as possible.
//
// An fsync writes a file's bytes, waits for them, and then waits for the file system's journal.
// With one fsync after the other, the save would wait for the journal once per file. Instead, all
// bytes are first submitted and then awaited. The first sync after that writes the journal for all
// files, and the others find nothing to do. For thousands of files even this is slow (10,000
// parameters in folders: 2.6 s). In that case the whole file system is synced once (0.4 s), if that
// gives the same guarantee.
//
// A checkpoint shares files with an older one (orbax/reuse/). If this process has synced such a
// file and nobody has written to it since, only its new name is not on disk yet, and the sync of
// its folder takes care of that. An fsync of the file would cost a flush of the disk (4 ms) for
// nothing. How many names a file has says nothing about that: anybody may link a file that is being
// written, and the older checkpoint may have been saved without syncing.
#include <cairn/base/executor.h>
#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

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

// Removes the files that `synced` has. Returns the states of all, as they are before the sync.
std::set<FileState> remove_synced(std::vector<std::string>& files, const SyncedFiles& synced) {
  std::set<FileState> states;
  std::erase_if(files, [&](const std::string& file) {
    return synced.has(*states.insert(File::open(file).state()).first);
  });
  return states;
}

void sync_all(const std::string& path, std::vector<std::string> files,
              const std::vector<std::string>& folders) {
  if (files.size() + folders.size() > kMany && sync_file_system(path)) return;
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
  files.insert(files.end(), folders.begin(), folders.end());
  // Each sync waits for the disk and not for a processor; the system writes concurrent syncs
  // together.
  Executor waiting(std::clamp<std::size_t>(files.size() / 64, 1, kWaiting));
  waiting.for_each(files.size(), [&](std::size_t i) { sync_path(files[i]); });
}

}  // namespace

bool SyncedFiles::is_synced(const FileState& file) const {
  return std::ranges::any_of(saves_, [&](const auto& save) {
    const auto found = save.find(file);
    return found != save.end() && found->second;
  });
}

bool SyncedFiles::has(const FileState& file) const {
  const std::scoped_lock lock(mutex_);
  return is_synced(file);
}

void SyncedFiles::track(const std::set<FileState>& files) {
  const std::scoped_lock lock(mutex_);
  std::map<FileState, bool> save;
  for (const FileState& file : files) save.emplace(file, is_synced(file));
  saves_.push_front(std::move(save));
  if (saves_.size() > kMostSaves) saves_.pop_back();
}

void SyncedFiles::note(const std::set<FileState>& files) {
  const std::scoped_lock lock(mutex_);
  for (const FileState& file : files)
    for (auto& save : saves_)
      if (const auto found = save.find(file); found != save.end()) found->second = true;
}

void sync_tree(const std::string& path, SyncedFiles* synced) {
  std::vector<std::string> files;
  std::vector<std::string> folders;
  for_each_below(path, [&](const std::string& entry, EntryKind kind) {
    if (kind == EntryKind::kFile) files.push_back(entry);
    if (kind == EntryKind::kDirectory) folders.push_back(entry);
  });
  folders.push_back(path);
  sync_some(path, std::move(files), folders, synced);
}

void sync_some(const std::string& path, std::vector<std::string> files,
               const std::vector<std::string>& folders, SyncedFiles* synced) {
  if (synced == nullptr) return sync_all(path, std::move(files), folders);
  const std::set<FileState> states = remove_synced(files, *synced);
  sync_all(path, std::move(files), folders);
  synced->note(states);
}

}  // namespace cairn::inline v0
