// save_lock.cc -- the lock is a file that is created exclusively and locked while its process
// lives.
#include <cairn/io/save_lock.h>

#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <cairn/io/temporary_name.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

namespace cairn::inline v0 {
namespace {

// attempts, if other processes create and remove the file in between
constexpr int kLockAttempts = 1000;
// is_locked() takes the lock for some microseconds. A save that meets a leftover in that moment
// must not take it for the lock of another save, so it tries again.
constexpr int kProbeAttempts = 50;
constexpr std::chrono::milliseconds kProbePause{2};

[[noreturn]] void refuse_held(const std::string& target, const std::string& holder) {
  throw Error(Code::kUnavailable, target + ": another save to this path is in progress" +
                                      (holder.empty() ? "" : " (process " + holder + ")") +
                                      "; wait until it ends");
}

// Returns the holder as it wrote it, for example "4242 on host"; "" if it cannot be read.
std::string holder_of(int fd) {
  std::array<char, 200> text{};
  const auto n = uninterrupted([&] { return pread(fd, text.data(), text.size() - 1, 0); });
  return n > 0 ? std::string(text.data(), static_cast<std::size_t>(n)) : "";
}

void write_holder(int fd) {
  std::array<char, 100> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string text = std::to_string(getpid()) + " on " + host.data();
  // The text is only for messages, so a failed write is ignored.
  (void)uninterrupted([&] { return pwrite(fd, text.data(), text.size(), 0); });
}

// Returns 0 on success, EWOULDBLOCK if another process holds the lock, and ENOTSUP if the file
// system has no such locks.
int try_flock(int fd) {
  if (uninterrupted([&] { return flock(fd, LOCK_EX | LOCK_NB); }) == 0) return 0;
  return errno == EWOULDBLOCK ? EWOULDBLOCK : ENOTSUP;
}

// As try_flock(), but waits for a process that only asks whether the file is locked.
int try_flock_beside_probes(int fd) {
  int result = try_flock(fd);
  for (int i = 1; i < kProbeAttempts && result == EWOULDBLOCK; ++i) {
    std::this_thread::sleep_for(kProbePause);
    result = try_flock(fd);
  }
  return result;
}

// Returns true if the path still names the open file and not a newer one.
bool names(const std::string& path, int fd) {
  struct stat by_path {};
  struct stat by_fd {};
  return lstat(path.c_str(), &by_path) == 0 && fstat(fd, &by_fd) == 0 &&
         by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino;
}

int open_existing(const std::string& path) {
  return uninterrupted(
      [&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
}

// Removes the lock file at `path` that a crash has left. Throws if a live process holds it.
void remove_leftover(const std::string& path, const std::string& target) {
  const int fd = open_existing(path);
  if (fd < 0) {
    if (errno == ENOENT) return;  // its holder has just removed it
    fail_file_call(path, "open the lock of an earlier save; remove it if that has ended", errno);
  }
  const int result = try_flock_beside_probes(fd);
  const std::string holder = result == 0 ? "" : holder_of(fd);
  // While this process holds the lock, no other process removes the file or locks a newer one.
  if (result == 0 && names(path, fd)) unlink(path.c_str());
  close(fd);
  if (result == EWOULDBLOCK) refuse_held(target, holder);
  if (result != 0)
    throw Error(
        Code::kUnavailable,
        target + ": another save to this path is in progress, or was interrupted (process " +
            holder + "): this file system does not support locks; if that save has ended, remove " +
            path);
}

}  // namespace

std::string SaveLock::file_for(const std::string& path) { return lock_name(path); }

SaveLock::SaveLock(const std::string& path) : path_(file_for(path)) {
  for (int i = 0; i < kLockAttempts; ++i)
    if (try_take(path)) return;
  refuse_held(path, "");
}

// Returns false if the file was another process's leftover, or if another process took it for a
// leftover before it was locked.
bool SaveLock::try_take(const std::string& target) {
  int fd = -1, error = 0;
  noted_.emplace(path_, NotedTemporary::Order::kLast, [&] {
    fd = uninterrupted(
        [&] { return ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    error = fd < 0 ? errno : 0;
    return fd >= 0;
  });
  if (fd < 0) {
    if (error != EEXIST) fail_to_create(target, error);
    remove_leftover(path_, target);
    return false;
  }
  const int result = try_flock(fd);
  if (result == EWOULDBLOCK || !names(path_, fd)) {
    noted_.reset();
    close(fd);
    return false;
  }
  fd_ = fd;
  write_holder(fd);
  return true;
}

SaveLock::~SaveLock() {
  if (fd_ < 0) return;
  if (names(path_, fd_)) unlink(path_.c_str());
  close(fd_);
}

bool SaveLock::is_held(const std::string& path) { return is_locked(file_for(path)); }

bool is_locked(const std::string& file) {
  const int fd = open_existing(file);
  if (fd < 0) return false;
  const bool held = try_flock(fd) == EWOULDBLOCK;
  close(fd);
  return held;
}

bool remove_unless_locked(const std::string& file) {
  const int fd = open_existing(file);
  if (fd < 0 && errno != ENOENT) fail_file_call(file, "open it to remove it", errno);
  if (fd < 0) return true;
  const int result = try_flock(fd);
  // While this process holds the lock, no other process removes the file or locks a newer one.
  if (result != EWOULDBLOCK && names(file, fd)) unlink(file.c_str());
  close(fd);
  return result != EWOULDBLOCK;
}

}  // namespace cairn::inline v0
