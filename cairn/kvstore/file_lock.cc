// file_lock.cc -- implements TensorStore's lock file protocol.
#include <cairn/kvstore/file_lock.h>

#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace cairn::inline v0 {
namespace {

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int number) : fd(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

// Returns true if `path` still names the open file.
bool names_open_file(const std::string& path, int fd) {
  struct stat named {};
  struct stat open {};
  if (fstat(fd, &open) != 0) fail_file_call(path, "stat the lock file", errno);
  if (stat(path.c_str(), &named) != 0) {
    if (errno == ENOENT) return false;
    fail_file_call(path, "stat the lock file", errno);
  }
  return named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

}  // namespace

FileLock::FileLock(const std::string& path) : lock_path_(path + ".__lock") {
  while (true) {
    Descriptor file(uninterrupted(
        [&] { return open(lock_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); }));
    if (file.fd < 0) fail_file_call(lock_path_, "open the lock file", errno);
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (uninterrupted([&] { return fcntl(file.fd, F_OFD_SETLKW, &whole); }) != 0)
      fail_file_call(lock_path_, "lock it", errno);
    // While this process waited, the previous holder has removed the lock file or renamed it to
    // become the value.
    if (!names_open_file(lock_path_, file.fd)) continue;
    if (uninterrupted([&] { return ftruncate(file.fd, 0); }) != 0)
      fail_file_call(lock_path_, "empty the lock file", errno);
    fd_ = std::exchange(file.fd, -1);
    return;
  }
}

FileLock::~FileLock() {
  // Remove the file first: the next holder must notice that this file is no longer the lock.
  unlink(lock_path_.c_str());
  close(fd_);
}

}  // namespace cairn::inline v0
