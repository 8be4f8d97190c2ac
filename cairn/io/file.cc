// file.cc -- files of the local file system over the kernel's calls.
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/io/output_file.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>  // clock_gettime
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <random>
#include <system_error>
#include <utility>

namespace cairn {
namespace {

constexpr std::string_view kTemporary = ".cairn-tmp-";
constexpr std::uint64_t kMaxOffset = std::numeric_limits<off_t>::max();

[[noreturn]] void fail(const std::string& path, const std::string& doing, int error) {
  // Links that lead round in a circle lead to no file, whoever asks.
  const Code code = error == ENOENT  ? Code::kNotFound
                    : error == ELOOP ? Code::kDataLoss
                                     : Code::kIo;
  throw Error(code, path + ": cannot " + doing + ": " + std::generic_category().message(error));
}

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (fstat(fd, &status) != 0) fail(path, "look at it", errno);
  return status;
}

// O_NONBLOCK: a named pipe must not make us wait for its writer; regular files do not know the
// flag.
int open_for_reading(int folder, const std::string& name) {
  // The kernel would read only up to a NUL byte, that is, another file.
  if (name.find('\0') != std::string::npos)
    throw Error(Code::kInvalidArgument, "a path holds a NUL byte");
  return uninterrupted(
      [&] { return ::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
}

[[noreturn]] void fail_too_large(const std::string& path, std::uint64_t size,
                                 std::uint64_t max_size) {
  throw Error(Code::kDataLoss, path + ": " + std::to_string(size) + " bytes, at most " +
                                   std::to_string(max_size) + " are expected");
}

[[noreturn]] void fail_short(const std::string& path, std::uint64_t end, std::uint64_t wanted_end) {
  throw Error(Code::kOutOfRange, path + ": the file ends at byte " + std::to_string(end) +
                                     ", byte " + std::to_string(wanted_end) + " is wanted");
}

void check_offsets(const std::string& path, std::uint64_t offset, std::uint64_t length) {
  if (offset > kMaxOffset || length > kMaxOffset - offset)
    throw Error(Code::kOutOfRange,
                path + ": bytes at " + std::to_string(offset) + " are beyond what a file can hold");
}

// Whether an error of lstat or stat says that nothing is there. No permission for a folder above
// does not say that.
bool names_nothing(int error) {
  return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG || error == ELOOP;
}

std::string parent_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Renames without replacing anything: 0, or the error.
int rename_to_free_name(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return errno;
  // File systems without the flag: a second name for the file, else a placeholder that is ours.
  if (link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0 ? 0 : errno;
  if (errno == EEXIST) return errno;
  const int placeholder = uninterrupted(
      [&] { return ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  if (placeholder < 0) return errno;
  close(placeholder);
  return rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
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

std::optional<File> File::try_open(const std::string& path) {
  return try_open_at(AT_FDCWD, path, path);
}

std::optional<File> File::try_open_at(int folder, const std::string& name,
                                      const std::string& path) {
  const int fd = open_for_reading(folder, name);
  if (fd < 0) {
    // A name that is too long for the file system names nothing.
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return std::nullopt;
    fail(path, "open the file", errno);
  }
  File file(fd, path);
  const auto mode = status_of(fd, path).st_mode;
  if (S_ISDIR(mode)) return std::nullopt;
  if (!S_ISREG(mode)) throw Error(Code::kDataLoss, path + ": is not a regular file");
  return file;
}

File File::open(const std::string& path) {
  std::optional<File> file = try_open(path);
  if (file) return *std::move(file);
  if (directory_exists(path))
    throw Error(Code::kDataLoss, path + ": is a directory, a file is expected");
  throw Error(Code::kNotFound, path + ": no such file");
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

std::uint64_t File::size() const {
  return static_cast<std::uint64_t>(status_of(fd_, path_).st_size);
}

std::uint64_t File::allocated() const {
  return static_cast<std::uint64_t>(status_of(fd_, path_).st_blocks) * 512;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> File::data_from(std::uint64_t offset) const {
  // All reads are positioned, so nobody else minds where the descriptor stands.
  const std::uint64_t end = size();
  if (offset >= end) return std::nullopt;
  const off_t begin = lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
  if (begin < 0 && errno == ENXIO) return std::nullopt;
  if (begin < 0) return std::pair{offset, end};
  const off_t hole = lseek(fd_, begin, SEEK_HOLE);
  return std::pair{static_cast<std::uint64_t>(begin),
                   hole <= begin ? end : static_cast<std::uint64_t>(hole)};
}

std::int64_t File::modified_ns() const {
  const timespec at = status_of(fd_, path_).st_mtim;
  return std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
}

bool File::unlinked() const { return status_of(fd_, path_).st_nlink == 0; }

void File::read_into(std::uint64_t offset, MutableByteView out) const {
  check_offsets(path_, offset, out.size());
  const std::uint64_t end = offset + out.size();
  while (!out.empty()) {
    const auto n = uninterrupted(
        [&] { return pread(fd_, out.data(), out.size(), static_cast<off_t>(offset)); });
    if (n < 0) fail(path_, "read at byte " + std::to_string(offset), errno);
    if (n == 0) fail_short(path_, size(), end);
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void File::read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const {
  // far below the kernel's limit of 1024, and small enough for the stack
  constexpr std::size_t kBatch = 64;
  std::uint64_t length = 0;
  for (const auto& part : out) length += part.size();
  check_offsets(path_, offset, length);
  const std::uint64_t end = offset + length;
  std::size_t done_in_first = 0;  // bytes of out[0] that an earlier call has filled
  while (!out.empty()) {
    std::array<iovec, kBatch> parts;
    const std::size_t count = std::min(out.size(), kBatch);
    for (std::size_t i = 0; i < count; ++i) parts[i] = {out[i].data(), out[i].size()};
    parts[0] = {out[0].data() + done_in_first, out[0].size() - done_in_first};
    const auto n = uninterrupted([&] {
      return preadv(fd_, parts.data(), static_cast<int>(count), static_cast<off_t>(offset));
    });
    if (n < 0) fail(path_, "read at byte " + std::to_string(offset), errno);
    std::size_t fresh = static_cast<std::size_t>(n);
    offset += fresh;
    // Step over what is full now, empty parts included; if nothing is, the file has ended.
    const std::size_t before = out.size();
    while (!out.empty() && fresh >= out[0].size() - done_in_first) {
      fresh -= out[0].size() - done_in_first;
      out = out.subspan(1);
      done_in_first = 0;
    }
    done_in_first += fresh;
    if (n == 0 && out.size() == before) fail_short(path_, size(), end);
  }
}

void File::will_need(std::uint64_t offset, std::uint64_t length) const {
  // Only advice: whatever it answers, reading works.
  if (offset <= kMaxOffset && length <= kMaxOffset - offset)
    posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_WILLNEED);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  return of(File::open(path));
}

std::shared_ptr<const MappedFile> MappedFile::of(const File& file) {
  const std::uint64_t size = file.size();
  void* data = nullptr;  // the kernel refuses a mapping of nothing, so an empty file has none
  if (size > 0) data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd_, 0);
  if (data == MAP_FAILED) fail(file.path(), "map the file", errno);
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool is_temporary_name(std::string_view name) {
  const auto at = name.rfind(kTemporary);
  if (at == std::string_view::npos || at == 0) return false;
  const std::string_view suffix = name.substr(at + kTemporary.size());
  return !suffix.empty() && suffix.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_temporary_of(std::string_view name, std::string_view final_name) {
  return is_temporary_name(name) && name.substr(0, name.rfind(kTemporary)) == final_name;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  if (path_.find('\0') != std::string::npos)
    throw Error(Code::kInvalidArgument, "a path holds a NUL byte");
  int error = 0;
  do {
    temp_path_ = path_ + std::string(kTemporary) + random_suffix();
    noted_.emplace(temp_path_, NotedTemporary::Order::kFirst, [&] {
      fd_ = uninterrupted([&] {
        return ::open(temp_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      });
      error = fd_ < 0 ? errno : 0;
      return fd_ >= 0;
    });
  } while (error == EEXIST);
  if (error != 0) fail(temp_path_, "create the file", error);
  // Tells those who look for leftovers that it is being written; not all file systems have such
  // locks.
  (void)flock(fd_, LOCK_EX | LOCK_NB);
}

AtomicFile::AtomicFile(std::string path, std::string temporary)
    : path_(std::move(path)), temp_path_(std::move(temporary)), ours_(false) {
  fd_ = uninterrupted([&] { return ::open(temp_path_.c_str(), O_WRONLY | O_CLOEXEC); });
  if (fd_ < 0) fail(temp_path_, "open another process's file", errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (ours_ && !temp_path_.empty()) unlink(temp_path_.c_str());
}

void AtomicFile::append(ByteView bytes) { write_at(size_, bytes); }

void AtomicFile::write_at(std::uint64_t offset, ByteView bytes) {
  if (fd_ < 0) throw Error(Code::kFailedPrecondition, path_ + ": written after its commit");
  check_offsets(path_, offset, bytes.size());
  const std::uint64_t end = offset + bytes.size();
  while (!bytes.empty()) {
    const auto n = uninterrupted(
        [&] { return pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n < 0) fail(temp_path_, "write at byte " + std::to_string(offset), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  std::uint64_t known = size_;
  while (known < end && !size_.compare_exchange_weak(known, end)) {
  }
}

void AtomicFile::append(std::span<const ByteView> parts) {
  constexpr std::size_t kBatch = 64;
  if (fd_ < 0) throw Error(Code::kFailedPrecondition, path_ + ": written after its commit");
  while (!parts.empty()) {
    std::array<iovec, kBatch> batch;
    std::size_t count = 0, length = 0;
    for (; count < std::min(parts.size(), kBatch); ++count) {
      // The kernel only reads from here; its struct serves reading calls, too.
      batch[count] = {const_cast<std::byte*>(parts[count].data()), parts[count].size()};
      length += parts[count].size();
    }
    const std::uint64_t offset = size_;
    check_offsets(path_, offset, length);
    const auto n = uninterrupted([&] {
      return pwritev(fd_, batch.data(), static_cast<int>(count), static_cast<off_t>(offset));
    });
    if (n < 0) fail(temp_path_, "write at byte " + std::to_string(offset), errno);
    size_ += static_cast<std::uint64_t>(n);
    // What a short write has left of its parts goes one by one; it is rare.
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
  std::array<timespec, 2> times{};
  clock_gettime(CLOCK_REALTIME, &times[1]);
  times[0] = times[1];
  if (futimens(fd_, times.data()) != 0) fail(temp_path_, "set the time of the file", errno);
}

void AtomicFile::finish(Durability durability) {
  if (fd_ < 0) throw Error(Code::kFailedPrecondition, path_ + ": finished twice");
  // The bytes must be on disk before the name is: a crash in between must never leave the name with
  // half the bytes.
  if (durability == Durability::kSynced && uninterrupted([&] { return fsync(fd_); }) != 0)
    fail(temp_path_, "sync the file", errno);
  // A network file system may report a failed write only here. Never closed twice: the number may
  // be someone else's by then.
  if (close(std::exchange(fd_, -1)) != 0 && errno != EINTR)
    fail(temp_path_, "close the file", errno);
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
  if (error != 0) fail(path_, "rename the finished file to it", error);
  temp_path_.clear();
  noted_.reset();
  if (durability == Durability::kSynced) sync_parent(path_);
}

Bytes read_file(const std::string& path, std::uint64_t max_size) {
  const File file = File::open(path);
  const std::uint64_t size = file.size();
  if (size > max_size) fail_too_large(path, size, max_size);
  Bytes bytes(size);
  file.read_into(0, bytes);
  return bytes;
}

Bytes read_text(const File& file, std::uint64_t max_size) {
  constexpr std::uint64_t kBlock = std::uint64_t{16} << 20U;
  const std::uint64_t size = file.size();
  if (size > max_size) fail_too_large(file.path(), size, max_size);
  Bytes bytes;
  bytes.reserve(size);  // which touches nothing
  while (bytes.size() < size) {
    const std::uint64_t at = bytes.size();
    bytes.resize(at + std::min(kBlock, size - at));
    const MutableByteView block = MutableByteView(bytes).subspan(at);
    file.read_into(at, block);
    // Of a small file the parser says what is wrong.
    if (size <= kBlock) break;
    if (const void* nul = std::memchr(block.data(), 0, block.size()); nul != nullptr)
      throw Error(Code::kDataLoss,
                  file.path() + ": byte " +
                      std::to_string(at + static_cast<std::uint64_t>(
                                              static_cast<const std::byte*>(nul) - block.data())) +
                      " is NUL, which no text has");
  }
  return bytes;
}

Bytes read_text_file(const std::string& path, std::uint64_t max_size) {
  return read_text(File::open(path), max_size);
}

bool file_exists(const std::string& path) {
  struct stat status {};
  if (path.find('\0') != std::string::npos) return false;  // the kernel would look for another name
  if (lstat(path.c_str(), &status) == 0) return true;
  if (!names_nothing(errno)) fail(path, "look at it", errno);
  return false;
}

bool directory_exists(const std::string& path) {
  struct stat status {};
  if (path.find('\0') != std::string::npos) return false;
  if (stat(path.c_str(), &status) == 0) return S_ISDIR(status.st_mode);
  if (!names_nothing(errno)) fail(path, "look at it", errno);
  return false;
}

void sync_path(const std::string& path) {
  const int fd =
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd < 0) fail(path, "open it to sync it", errno);
  const int result = uninterrupted([&] { return fsync(fd); });
  const int error = errno;
  close(fd);
  // There is nothing more to be had from a file system that has no sync of folders.
  if (result != 0 && error != EINVAL && error != EROFS && error != ENOTSUP)
    fail(path, "sync it", error);
}

void sync_parent(const std::string& path) {
  with_context([&] { return path + ": is in place, but may not survive a loss of power"; },
               [&] { sync_path(parent_of(path)); });
}

void make_directories(const std::string& path, Durability durability) {
  if (directory_exists(path)) return;
  for (std::size_t end = 0; end < path.size();) {
    end = std::min(path.find('/', end + 1), path.size());
    const std::string folder = path.substr(0, end);
    if (directory_exists(folder)) continue;
    if (mkdir(folder.c_str(), 0777) == 0) {
      if (durability == Durability::kSynced) sync_path(parent_of(folder));
    } else if (errno != EEXIST ||
               !directory_exists(folder)) {  // another process may have been quicker
      fail(folder, "make the folder", errno);
    }
  }
}

}  // namespace cairn
