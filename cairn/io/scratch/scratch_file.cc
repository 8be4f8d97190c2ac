#include <cairn/io/scratch/scratch_file.h>

#include <cairn/base/text.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <cairn/io/temporary_name.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr mode_t kOwnerOnly = 0600;

std::string existing_folder(std::string path) {
  path = absolute_path(path);
  while (path.size() > 1 && !directory_exists(path)) path = parent_of(path);
  return path;
}

// For file systems that have no files without a name: makes one, and removes its name at once.
int open_and_unlink(const std::string& folder) {
  std::random_device device;
  while (true) {
    const std::string path = temporary_name(folder + "/scratch", std::to_string(device()));
    const int fd = uninterrupted(
        [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly); });
    if (fd >= 0) (void)::unlink(path.c_str());
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

}  // namespace

ScratchFile::ScratchFile(std::string folder) : folder_(existing_folder(std::move(folder))) {
  fd_ = uninterrupted(
      [&] { return ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwnerOnly); });
  if (fd_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT))
    fd_ = open_and_unlink(folder_);
  if (fd_ < 0) fail_file_call(folder_, "create a scratch file", errno, Code::kIo);
}

ScratchFile::~ScratchFile() { ::close(fd_); }

std::uint64_t ScratchFile::free_space() const {
  struct statvfs space {};
  if (fstatvfs(fd_, &space) != 0) return 0;
  return std::uint64_t{space.f_bavail} * space.f_frsize;
}

void ScratchFile::write_at(std::uint64_t offset, ByteView bytes) {
  check_file_range(folder_, offset, bytes.size());
  while (!bytes.empty()) {
    const ssize_t n = uninterrupted(
        [&] { return ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n < 0) fail_file_call(folder_, "write a scratch file", errno, Code::kIo);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void ScratchFile::read_at(std::uint64_t offset, MutableByteView out) const {
  check_file_range(folder_, offset, out.size());
  while (!out.empty()) {
    const ssize_t n = uninterrupted(
        [&] { return ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset)); });
    if (n <= 0) fail_file_call(folder_, "read a scratch file", n < 0 ? errno : EIO, Code::kIo);
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

}  // namespace cairn::inline v0
