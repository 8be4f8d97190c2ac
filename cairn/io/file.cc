// file.cc -- implements file access with system calls.
#include <cairn/io/file.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

namespace cairn::inline v0 {
namespace {

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (fstat(fd, &status) != 0) fail_file_call(path, "stat it", errno);
  return status;
}

std::int64_t modified_ns_of(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

FileState state_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = modified_ns_of(status)};
}

// O_NONBLOCK: opening a named pipe must not wait for its writer. Regular files ignore the flag.
int open_for_reading(int folder, const std::string& name) {
  // The kernel would stop at the NUL byte and open another file.
  if (name.find('\0') != std::string::npos)
    throw Error(Code::kInvalidArgument, "a path holds a NUL byte");
  return uninterrupted(
      [&] { return ::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
}

[[noreturn]] void fail_too_large(const std::string& path, std::uint64_t size,
                                 std::uint64_t max_size) {
  throw Error(Code::kDataLoss, path + ": has " + std::to_string(size) + " bytes, at most " +
                                   std::to_string(max_size) + " are expected");
}

[[noreturn]] void fail_short(const File& file, std::uint64_t wanted_end) {
  file.check_unchanged();
  throw Error(Code::kOutOfRange, file.path() + ": the file ends at byte " +
                                     std::to_string(file.size()) + ", but the read ends at byte " +
                                     std::to_string(wanted_end));
}

// Throws the error of opening a name for reading.
[[noreturn]] void fail_to_open(int folder, const std::string& name, const std::string& path,
                               int error) {
  struct stat status {};
  // A socket cannot be opened, nor can a device that is not there.
  if (error == ENXIO && fstatat(folder, name.c_str(), &status, 0) == 0 && !S_ISREG(status.st_mode))
    fail_irregular(path, status.st_mode);
  // A cycle of links leads to no file.
  if (error == ELOOP) fail_file_call(path, "open the file", error, Code::kDataLoss);
  fail_file_call(path, "open the file", error);
}

// Returns true if an error of lstat or stat means that nothing exists at the path. A missing
// permission for a parent folder does not mean that.
bool names_nothing(int error) {
  return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG || error == ELOOP;
}

}  // namespace

std::optional<File> File::try_open(const std::string& path) {
  return try_open_at(AT_FDCWD, path, path);
}

std::optional<File> File::try_open_at(int folder, const std::string& name,
                                      const std::string& path) {
  const int fd = open_for_reading(folder, name);
  if (fd < 0) {
    // A name that is too long for the file system cannot exist.
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return std::nullopt;
    fail_to_open(folder, name, path, errno);
  }
  File file(fd, path, {});
  const struct stat status = status_of(fd, path);
  if (S_ISDIR(status.st_mode)) return std::nullopt;
  if (!S_ISREG(status.st_mode)) fail_irregular(path, status.st_mode);
  file.opened_ = state_of(status);
  return file;
}

File File::open(const std::string& path) {
  std::optional<File> file = try_open(path);
  if (file) return *std::move(file);
  fail_no_file(AT_FDCWD, path, path);
}

void fail_no_file(int folder, const std::string& name, const std::string& path) {
  struct stat status {};
  if (fstatat(folder, name.c_str(), &status, 0) == 0 && S_ISDIR(status.st_mode))
    throw Error(Code::kDataLoss, path + ": is a directory, a file is expected");
  std::array<char, 256> target{};
  const auto length = readlinkat(folder, name.c_str(), target.data(), target.size());
  const std::string link =
      length > 0 ? " (it is a symbolic link to " +
                       std::string(target.data(), static_cast<std::size_t>(length)) + ")"
                 : "";
  throw Error(Code::kNotFound, path + ": no such file" + link);
}

File::File(std::string path, std::shared_ptr<const RangeSource> source)
    : path_(std::move(path)),
      // The version tells the states of two values apart as an inode does those of two files.
      opened_{.device = 0,
              .inode = std::hash<std::string>()(path_ + '\n' + source->version()),
              .size = source->size(),
              .modified_ns = source->modified_ns()},
      source_(std::move(source)) {}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      opened_(other.opened_),
      accepts_changes_(other.accepts_changes_),
      flag_(std::move(other.flag_)),
      source_(std::move(other.source_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(opened_, other.opened_);
  std::swap(accepts_changes_, other.accepts_changes_);
  std::swap(flag_, other.flag_);
  std::swap(source_, other.source_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

std::uint64_t File::size() const {
  if (source_) return source_->size();
  return static_cast<std::uint64_t>(status_of(fd_, path_).st_size);
}

std::uint64_t File::allocated() const {
  if (source_) return source_->size();
  return static_cast<std::uint64_t>(status_of(fd_, path_).st_blocks) * 512;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> File::data_from(std::uint64_t offset) const {
  // All reads are positioned, so moving the descriptor's offset does not affect them.
  const std::uint64_t end = size();
  if (offset >= end) return std::nullopt;
  if (source_) return std::pair{offset, end};
  const off_t begin = lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
  if (begin < 0 && errno == ENXIO) return std::nullopt;
  if (begin < 0) return std::pair{offset, end};
  const off_t hole = lseek(fd_, begin, SEEK_HOLE);
  return std::pair{static_cast<std::uint64_t>(begin),
                   hole <= begin ? end : static_cast<std::uint64_t>(hole)};
}

std::int64_t File::modified_ns() const { return state().modified_ns; }

FileState File::state() const { return source_ ? opened_ : state_of(status_of(fd_, path_)); }

bool File::changed() const { return !source_ && !accepts_changes_ && state() != opened_; }

void File::check_unchanged() const {
  if (!changed()) return;
  if (flag_) flag_->store(true, std::memory_order_relaxed);
  throw Error(Code::kUnavailable,
              path_ + ": another program wrote to it while Cairn read it; open it again");
}

void File::check_current() const {
  if (source_) return;  // each read asks for the version that was opened
  check_unchanged();
  const auto named = try_state(path_);
  if (!named || named->device != opened_.device || named->inode != opened_.inode)
    throw Error(Code::kUnavailable,
                path_ + ": was replaced or removed while Cairn read it; open it again");
}

bool File::stamp() const { return !source_ && stamp_descriptor(fd_, path_); }

bool File::unlinked() const { return !source_ && status_of(fd_, path_).st_nlink == 0; }

void File::read_into(std::uint64_t offset, MutableByteView out) const {
  if (source_) return source_->read_into(offset, out);
  check_file_range(path_, offset, out.size());
  const std::uint64_t end = offset + out.size();
  while (!out.empty()) {
    const auto n = uninterrupted(
        [&] { return pread(fd_, out.data(), out.size(), static_cast<off_t>(offset)); });
    if (n < 0) fail_file_call(path_, "read at byte " + std::to_string(offset), errno);
    if (n == 0) fail_short(*this, end);
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  check_unchanged();
}

void File::read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const {
  if (source_) return source_->read_scatter(offset, out);
  // Far below the kernel's limit of 1024, and small enough for the stack.
  constexpr std::size_t kBatch = 64;
  std::uint64_t length = 0;
  for (const auto& part : out) length += part.size();
  check_file_range(path_, offset, length);
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
    if (n < 0) fail_file_call(path_, "read at byte " + std::to_string(offset), errno);
    std::size_t fresh = static_cast<std::size_t>(n);
    offset += fresh;
    // Skip the buffers that are now full, including empty ones. If the read returned no bytes, the
    // file has ended.
    const std::size_t before = out.size();
    while (!out.empty() && fresh >= out[0].size() - done_in_first) {
      fresh -= out[0].size() - done_in_first;
      out = out.subspan(1);
      done_in_first = 0;
    }
    done_in_first += fresh;
    if (n == 0 && out.size() == before) fail_short(*this, end);
  }
  check_unchanged();
}

void File::will_need(std::uint64_t offset, std::uint64_t length) const {
  // This is only advice: reads work whatever the result is.
  if (!source_ && offset <= kMaxFileOffset && length <= kMaxFileOffset - offset)
    posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_WILLNEED);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  return of(File::open(path));
}

std::shared_ptr<const MappedFile> MappedFile::of(const File& file) {
  if (!file.is_local())
    throw Error(Code::kUnimplemented, file.path() + ": a value of a store cannot be mapped");
  const std::uint64_t size = file.size();
  void* data = nullptr;  // the kernel rejects an empty mapping, so an empty file has none
  if (size > 0) data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd_, 0);
  if (data == MAP_FAILED) fail_file_call(file.path(), "map the file", errno);
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Bytes read_file(const std::string& path, std::uint64_t max_size) {
  return read_file(File::open(path), max_size);
}

Bytes read_file(const File& file, std::uint64_t max_size) {
  const std::uint64_t size = file.size();
  if (size > max_size) fail_too_large(file.path(), size, max_size);
  Bytes bytes(size);
  file.read_into(0, bytes);
  return bytes;
}

Buffer read_text(const File& file, std::uint64_t max_size) {
  constexpr std::uint64_t kBlock = std::uint64_t{16} << 20U;
  const std::uint64_t size = file.size();
  if (size > max_size) fail_too_large(file.path(), size, max_size);
  Buffer bytes(size);  // this does not touch the memory
  for (std::uint64_t at = 0; at < size; at += kBlock) {
    const MutableByteView block(bytes.data() + at, std::min(kBlock, size - at));
    file.read_into(at, block);
    // For a small file the parser reports the error.
    if (size <= kBlock) break;
    if (const void* nul = std::memchr(block.data(), 0, block.size()); nul != nullptr)
      throw Error(Code::kDataLoss,
                  file.path() + ": byte " +
                      std::to_string(at + static_cast<std::uint64_t>(
                                              static_cast<const std::byte*>(nul) - block.data())) +
                      " is NUL, which is not allowed in text");
  }
  return bytes;
}

Buffer read_text_file(const std::string& path, std::uint64_t max_size) {
  return read_text(File::open(path), max_size);
}

std::optional<FileState> try_state(const std::string& path) { return try_state_at(AT_FDCWD, path); }

std::optional<FileState> try_state_at(int folder, const std::string& name) {
  struct stat status {};
  if (name.find('\0') != std::string::npos) return std::nullopt;
  if (fstatat(folder, name.c_str(), &status, 0) != 0) return std::nullopt;
  return state_of(status);
}

bool file_exists(const std::string& path) {
  struct stat status {};
  if (path.find('\0') != std::string::npos) return false;  // the kernel would look up another name
  if (lstat(path.c_str(), &status) == 0) return true;
  if (!names_nothing(errno)) fail_file_call(path, "stat it", errno);
  return false;
}

std::string kind_at(const std::string& path) {
  struct stat status {};
  if (path.find('\0') != std::string::npos) return "nothing";
  if (stat(path.c_str(), &status) != 0 && lstat(path.c_str(), &status) != 0) return "nothing";
  return S_ISREG(status.st_mode) ? "a file" : irregular_kind(status.st_mode);
}

bool is_special_file(const std::string& path) {
  struct stat status {};
  return path.find('\0') == std::string::npos && stat(path.c_str(), &status) == 0 &&
         !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool directory_exists(const std::string& path) {
  struct stat status {};
  if (path.find('\0') != std::string::npos) return false;
  if (stat(path.c_str(), &status) == 0) return S_ISDIR(status.st_mode);
  if (!names_nothing(errno)) fail_file_call(path, "stat it", errno);
  return false;
}

void sync_path(const std::string& path) {
  const int fd =
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd < 0) fail_file_call(path, "open it to sync it", errno);
  const int result = uninterrupted([&] { return fsync(fd); });
  const int error = errno;
  close(fd);
  // A file system without folder sync offers nothing stronger, so these errors are ignored.
  if (result != 0 && error != EINVAL && error != EROFS && error != ENOTSUP)
    fail_file_call(path, "sync it", error);
}

void sync_parent(const std::string& path) {
  with_context([&] { return path + ": is in place, but a power failure may lose it"; },
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
      continue;
    }
    const int error = errno;
    // Another process may have created it in the meantime.
    if (error == EEXIST && directory_exists(folder)) continue;
    fail_file_call(folder, "make the folder", error == EEXIST ? ENOTDIR : error,
                   error == ENOENT ? Code::kNotFound : Code::kIo);
  }
}

}  // namespace cairn::inline v0
