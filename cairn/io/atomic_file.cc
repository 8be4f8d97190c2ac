// atomic_file.cc -- writes, syncs and renames a temporary file.

#include <cairn/io/atomic_file.h>

#include <cairn/base/cancellation.h>
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/io/output_file.h>
#include <cairn/io/system_call.h>
#include <cairn/io/temporary_name.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <random>
#include <utility>

namespace cairn::inline v0 {
namespace {

// Renames without replacing an existing file. Returns 0 or the errno value.
int rename_to_free_name(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return errno;
  // For file systems without the flag: link the file under the second name; if that fails too,
  // create a placeholder of our own and replace it.
  if (link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0 ? 0 : errno;
  if (errno == EEXIST) return errno;
  const int placeholder = uninterrupted(
      [&] { return ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  if (placeholder < 0) return errno;
  close(placeholder);
  return rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

// The permissions of a new file: those of the file that it replaces, so that a private one stays
// private. The umask applies to both.
mode_t mode_of(const std::string& path) {
  struct stat status {};
  const bool replaces = ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  return replaces ? status.st_mode & 0777U : 0666U;
}

std::string random_suffix() {
  std::random_device device;
  std::array<char, 16> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(),
                                 std::uint64_t{device()} << 32U | device(), 16)
                       .ptr;
  return {text.data(), end};
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  if (path_.find('\0') != std::string::npos)
    throw Error(Code::kInvalidArgument, "a path holds a NUL byte");
  int error = 0;
  const mode_t mode = mode_of(path_) | S_IWUSR;
  do {
    temp_path_ = temporary_name(path_, random_suffix());
    noted_.emplace(temp_path_, NotedTemporary::Order::kFirst, [&] {
      fd_ = uninterrupted([&] {
        return ::open(temp_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      });
      error = fd_ < 0 ? errno : 0;
      return fd_ >= 0;
    });
  } while (error == EEXIST);
  if (error != 0) fail_to_create(path_, error);
  // Marks the file as in use for programs that search for leftovers. Not all file systems have such
  // locks.
  (void)flock(fd_, LOCK_EX | LOCK_NB);
}

AtomicFile::AtomicFile(std::string path, std::string temporary)
    : path_(std::move(path)), temp_path_(std::move(temporary)), ours_(false) {
  fd_ = uninterrupted([&] { return ::open(temp_path_.c_str(), O_WRONLY | O_CLOEXEC); });
  if (fd_ < 0) fail_file_call(temp_path_, "open another process's file", errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (ours_ && !temp_path_.empty()) unlink(temp_path_.c_str());
}

void AtomicFile::append(ByteView bytes) { write_at(size_, bytes); }

void AtomicFile::write_at(std::uint64_t offset, ByteView bytes) {
  if (fd_ < 0) throw Error(Code::kFailedPrecondition, path_ + ": written after its commit");
  check_file_range(path_, offset, bytes.size());
  const std::uint64_t end = offset + bytes.size();
  while (!bytes.empty()) {
    throw_if_cancelled();
    const std::size_t wanted = bytes_until_asked(bytes.size());
    const auto n = uninterrupted(
        [&] { return pwrite(fd_, bytes.data(), wanted, static_cast<off_t>(offset)); });
    if (n < 0) fail_file_call(temp_path_, "write at byte " + std::to_string(offset), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  std::uint64_t known = size_;
  while (known < end && !size_.compare_exchange_weak(known, end)) {
  }
}

void AtomicFile::extend(std::uint64_t size) {
  if (fd_ < 0) throw Error(Code::kFailedPrecondition, path_ + ": extended after its commit");
  check_file_range(path_, 0, size);
  if (size <= size_) return;
  if (uninterrupted([&] { return ftruncate(fd_, static_cast<off_t>(size)); }) != 0)
    fail_file_call(temp_path_, "make it " + std::to_string(size) + " bytes long", errno);
  size_ = size;
}

void AtomicFile::append(std::span<const ByteView> parts) {
  constexpr std::size_t kBatch = 64;
  if (fd_ < 0) throw Error(Code::kFailedPrecondition, path_ + ": written after its commit");
  while (!parts.empty()) {
    std::array<iovec, kBatch> batch;
    std::size_t count = 0, length = 0;
    for (; count < std::min(parts.size(), kBatch); ++count) {
      // The kernel only reads from this memory; the struct is shared with reading calls and is
      // therefore not const.
      batch[count] = {const_cast<std::byte*>(parts[count].data()), parts[count].size()};
      length += parts[count].size();
    }
    const std::uint64_t offset = size_;
    check_file_range(path_, offset, length);
    if (bytes_until_asked(length) < length) {
      for (const ByteView part : parts.first(count)) write_at(size_, part);
      parts = parts.subspan(count);
      continue;
    }
    const auto n = uninterrupted([&] {
      return pwritev(fd_, batch.data(), static_cast<int>(count), static_cast<off_t>(offset));
    });
    if (n < 0) fail_file_call(temp_path_, "write at byte " + std::to_string(offset), errno);
    size_ += static_cast<std::uint64_t>(n);
    // Writes the rest after a short write part by part. Short writes are rare.
    std::size_t done = static_cast<std::size_t>(n);
    for (const ByteView part : parts.first(count)) {
      const std::size_t skip = std::min(done, part.size());
      done -= skip;
      if (skip < part.size()) write_at(size_, part.subspan(skip));
    }
    parts = parts.subspan(count);
  }
}

void AtomicFile::stamp() {
  if (fd_ < 0) throw Error(Code::kFailedPrecondition, path_ + ": stamped after its commit");
  (void)stamp_descriptor(fd_, temp_path_);
}

void AtomicFile::finish(Durability durability) {
  if (fd_ < 0) throw Error(Code::kFailedPrecondition, path_ + ": finished twice");
  // The bytes must be on disk before the final name is: after a crash the name must never refer to
  // a half-written file.
  if (durability == Durability::kSynced && uninterrupted([&] { return fsync(fd_); }) != 0)
    fail_file_call(temp_path_, "sync the file", errno);
  // A network file system may report a failed write only on close. The descriptor is never closed
  // twice, because another thread may already reuse the number.
  if (close(std::exchange(fd_, -1)) != 0 && errno != EINTR)
    fail_file_call(temp_path_, "close the file", errno);
}

void AtomicFile::commit(Durability durability) {
  name_it(durability,
          [this] { return rename(temp_path_.c_str(), path_.c_str()) == 0 ? 0 : errno; });
}

void AtomicFile::commit_output_as(const std::string& path, IfExists if_exists,
                                  Durability durability) {
  path_ = path;
  commit_output(if_exists, durability);
}

void AtomicFile::commit_output(IfExists if_exists, Durability durability) {
  name_it(durability, [&] {
    check_output(path_, if_exists);
    if (if_exists == IfExists::kFail) return rename_to_free_name(temp_path_, path_);
    return rename(temp_path_.c_str(), path_.c_str()) == 0 ? 0 : errno;
  });
}

template <class Rename>
void AtomicFile::name_it(Durability durability, Rename rename_it) {
  if (committed()) throw Error(Code::kFailedPrecondition, path_ + ": committed twice");
  if (fd_ >= 0) finish(durability);
  const int error = rename_it();
  if (error == EEXIST) refuse_taken_name(path_);
  if (error != 0) fail_file_call(path_, "rename the finished file to it", error);
  temp_path_.clear();
  noted_.reset();
  if (durability == Durability::kSynced) sync_parent(path_);
}

void write_file_atomically(const std::string& path, ByteView bytes, Durability durability) {
  AtomicFile file(path);
  file.append(bytes);
  file.commit(durability);
}

}  // namespace cairn::inline v0
