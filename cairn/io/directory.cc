// directory.cc -- implements directories with system calls.
#include <cairn/io/directory.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

namespace cairn::inline v0 {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kListingBytes = std::size_t{32} << 10U;

// Calls renameat2. Returns ENOSYS or EINVAL if the kernel or the file system does not support the
// flags.
int rename_with(int fd, const std::string& from, int to_fd, const std::string& to, unsigned flags) {
  return renameat2(fd, from.c_str(), to_fd, to.c_str(), flags) == 0 ? 0 : errno;
}

bool is_unknown(int error) { return error == EINVAL || error == ENOSYS || error == ENOTSUP; }

EntryKind kind_of(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return EntryKind::kFile;
  if (S_ISDIR(status.st_mode)) return EntryKind::kDirectory;
  return S_ISLNK(status.st_mode) ? EntryKind::kLink : EntryKind::kOther;
}

EntryKind kind_of(const fs::file_status& status) {
  switch (status.type()) {
    case fs::file_type::not_found:
      return EntryKind::kAbsent;
    case fs::file_type::regular:
      return EntryKind::kFile;
    case fs::file_type::directory:
      return EntryKind::kDirectory;
    case fs::file_type::symlink:
      return EntryKind::kLink;
    default:
      return EntryKind::kOther;
  }
}

// Returns the kind that a listing reports, or nullopt: not every file system reports it.
std::optional<EntryKind> kind_of_type(unsigned char type) {
  switch (type) {
    case DT_REG:
      return EntryKind::kFile;
    case DT_DIR:
      return EntryKind::kDirectory;
    case DT_LNK:
      return EntryKind::kLink;
    case DT_UNKNOWN:
      return std::nullopt;
    default:
      return EntryKind::kOther;
  }
}

// Returns the kind of a name below the descriptor, or nullopt on an error, which errno tells.
std::optional<EntryKind> kind_at(int below, const char* name) {
  struct stat status {};
  if (fstatat(below, name, &status, AT_SYMLINK_NOFOLLOW) == 0) return kind_of(status);
  return errno == ENOENT ? std::optional(EntryKind::kAbsent) : std::nullopt;
}

int open_directory(int at, const char* path, int flags) {
  return uninterrupted(
      [&] { return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags); });
}

// Resolves the existing part of the path, link by link.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path from_root = fs::absolute(path.empty() ? fs::path(".") : path, error);
  if (error)
    throw Error(Code::kNotFound, path.string() + ": the working directory no longer exists");
  fs::path full = fs::weakly_canonical(from_root, error);
  if (error) fail_file_call(path.string(), "resolve the path", error.value());
  return full;
}

}  // namespace

void refuse_url(const std::string& path) {
  if (begins_as_url(path))
    throw Error(Code::kUnimplemented, path + ": a local path is needed here, not a URL");
}

std::string absolute_path(const std::string& path) {
  if (path.empty()) throw Error(Code::kInvalidArgument, "the path is empty");
  if (path.find('\0') != std::string::npos)
    throw Error(Code::kInvalidArgument, "a path holds a NUL byte");
  refuse_url(path);
  const fs::path given(path.substr(0, path.find_last_not_of('/') + 1));
  const fs::path name = given.filename();
  if (given.empty()) return "/";
  if (name == "." || name == "..") return resolved(given).string();
  return (resolved(given.parent_path()) / name).string();
}

std::string_view entry_kind_text(EntryKind kind) {
  static constexpr std::array<std::string_view, 5> kTexts = {
      "nothing", "a file", "a directory", "a symbolic link", "a device, pipe or socket"};
  return kTexts[static_cast<std::size_t>(kind)];
}

Directory::Directory(int fd, std::string path)
    : fd_(new int(fd),
          [](const int* descriptor) {
            close(*descriptor);
            delete descriptor;
          }),
      path_(std::move(path)) {}

Directory Directory::open(const std::string& path) {
  refuse_url(path);
  const int fd = open_directory(AT_FDCWD, path.c_str(), 0);
  if (fd < 0) fail_file_call(path, "open the directory", errno);
  Directory directory(fd, path);
  directory.path_ = resolved(path).string();
  // The parent directories may have been renamed between the two calls.
  struct stat by_path {};
  struct stat by_fd {};
  if (fstat(fd, &by_fd) != 0 || stat(directory.path_.c_str(), &by_path) != 0 ||
      by_fd.st_dev != by_path.st_dev || by_fd.st_ino != by_path.st_ino)
    throw Error(Code::kUnavailable,
                path + ": another directory took its name while Cairn opened it; try again");
  return directory;
}

std::string Directory::path_of(std::string_view name) const {
  return (path_ == "/" ? "/" : path_ + "/") + std::string(name);
}

EntryKind Directory::kind(const std::string& name) const {
  if (const auto found = kind_at(*fd_, name.c_str())) return *found;
  fail_file_call(path_of(name), "stat it", errno);
}

Directory Directory::child(const std::string& name) const {
  const int fd = open_directory(*fd_, name.c_str(), O_NOFOLLOW);
  if (fd < 0) fail_file_call(path_of(name), "open the directory", errno);
  return {fd, path_of(name)};
}

std::vector<DirectoryEntry> Directory::list() const {
  // The reader has a descriptor of its own, with its own read position.
  auto reader = DirectoryReader::try_open(*fd_, ".", path_);
  if (!reader) fail_file_call(path_, "list the folder", ENOENT);
  std::vector<DirectoryEntry> entries;
  while (const dirent64* entry = reader->next()) {
    const EntryKind found = reader->kind(*entry);
    if (found != EntryKind::kAbsent) entries.push_back({entry->d_name, found});
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

bool Directory::is_same(const Directory& other) const {
  struct stat a {};
  struct stat b {};
  if (fstat(*fd_, &a) != 0) fail_file_call(path_, "stat it", errno);
  if (fstat(*other.fd_, &b) != 0) fail_file_call(other.path_, "stat it", errno);
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool Directory::names(const std::string& name, const Directory& that) const {
  return kind(name) == EntryKind::kDirectory && child(name).is_same(that);
}

bool Directory::make(const std::string& name) const {
  if (mkdirat(*fd_, name.c_str(), 0777) == 0) return true;
  if (errno != EEXIST) fail_file_call(path_of(name), "make the directory", errno);
  return false;
}

void Directory::rename(const std::string& from, const std::string& to) const {
  move(from, *this, to);
}

void Directory::move(const std::string& from, const Directory& into, const std::string& to) const {
  int error = rename_with(*fd_, from, *into.fd_, to, RENAME_NOREPLACE);
  if (is_unknown(error)) {
    // Without the flag, the system still refuses to replace a non-empty directory.
    if (into.kind(to) != EntryKind::kAbsent)
      fail_file_call(into.path_of(to), "be replaced", EEXIST);
    error = rename_with(*fd_, from, *into.fd_, to, 0);
  }
  if (error != 0) fail_file_call(into.path_of(to), "rename " + from + " to it", error);
}

bool Directory::swap(const std::string& a, const std::string& b) const {
  const int error = rename_with(*fd_, a, *fd_, b, RENAME_EXCHANGE);
  if (is_unknown(error)) return false;
  if (error != 0) fail_file_call(path_of(b), "swap it with " + a, error);
  return true;
}

void Directory::remove(const std::string& name) const {
  const EntryKind found = kind(name);
  if (found == EntryKind::kDirectory) {
    const Directory below = child(name);
    for (const DirectoryEntry& entry : below.list()) below.remove(entry.name);
  }
  if (unlinkat(*fd_, name.c_str(), found == EntryKind::kDirectory ? AT_REMOVEDIR : 0) != 0 &&
      errno != ENOENT)
    fail_file_call(path_of(name), "remove it", errno);
}

void Directory::sync() const {
  const int result = uninterrupted([&] { return fsync(*fd_); });
  // A file system without directory sync offers nothing stronger, so these errors are ignored.
  if (result != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
    fail_file_call(path_, "sync it", errno);
}

DirectoryReader::DirectoryReader(int fd, bool owns, std::string path)
    : fd_(fd),
      owns_(owns),
      path_(std::move(path)),
      entries_(std::make_unique_for_overwrite<std::byte[]>(kListingBytes)) {}  // NOLINT

DirectoryReader::DirectoryReader(DirectoryReader&& other) noexcept
    : fd_(other.fd_),
      owns_(std::exchange(other.owns_, false)),
      path_(std::move(other.path_)),
      entries_(std::move(other.entries_)),
      at_(other.at_),
      end_(other.end_) {}

DirectoryReader::~DirectoryReader() {
  if (owns_) close(fd_);
}

std::optional<DirectoryReader> DirectoryReader::try_open(int below, const std::string& name,
                                                         std::string path) {
  const int fd = open_directory(below, name.c_str(), 0);
  if (fd < 0 && is_absence(errno)) return std::nullopt;
  if (fd < 0) fail_file_call(path, "list the folder", errno);
  return DirectoryReader(fd, true, std::move(path));
}

DirectoryReader DirectoryReader::of(int fd, std::string path) {
  return {fd, false, std::move(path)};
}

const dirent64* DirectoryReader::next() {
  while (true) {
    if (at_ == end_) {
      const ssize_t got =
          uninterrupted([&] { return getdents64(fd_, entries_.get(), kListingBytes); });
      // The kernel reports ENOENT for a directory that has been removed. It has no entries.
      if (got < 0 && errno != ENOENT) fail_file_call(path_, "list the folder", errno);
      if (got <= 0) return nullptr;
      at_ = 0;
      end_ = static_cast<std::size_t>(got);
    }
    const auto* entry = reinterpret_cast<const dirent64*>(entries_.get() + at_);
    at_ += entry->d_reclen;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return entry;
  }
}

EntryKind DirectoryReader::kind(const dirent64& entry) const {
  if (const auto told = kind_of_type(entry.d_type)) return *told;
  if (const auto found = kind_at(fd_, entry.d_name)) return *found;
  fail_file_call(path_ + "/" + entry.d_name, "stat it", errno);
}

std::set<std::string, std::less<>> names_in(const std::string& directory) {
  std::set<std::string, std::less<>> names;
  auto reader = DirectoryReader::try_open(AT_FDCWD, directory, directory);
  while (const dirent64* entry = reader ? reader->next() : nullptr) names.emplace(entry->d_name);
  return names;
}

void for_each_below(const std::string& path,
                    const std::function<void(const std::string& path, EntryKind kind)>& f) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error))
    f(at->path().string(), kind_of(at->symlink_status()));
  if (error) fail_file_call(path, "list it", error.value());
}

void remove_tree(const std::string& path) {
  // remove_all() stops at a file that another process has just removed.
  constexpr int kMostTries = 1000;
  std::error_code error;
  for (int tries = 0; tries < kMostTries; ++tries) {
    fs::remove_all(path, error);
    if (error != std::errc::no_such_file_or_directory) break;
  }
  if (error) fail_file_call(path, "remove it", error.value());
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) fail_file_call(path, "remove it", errno);
}

std::string link_file(int below, const std::string& name, const std::string& to) {
  if (linkat(below, name.c_str(), AT_FDCWD, to.c_str(), 0) != 0)
    return std::generic_category().message(errno);
  struct stat status {};
  if (fstatat(AT_FDCWD, to.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
    return "";
  remove_file(to);
  return "it is not a regular file";
}

}  // namespace cairn::inline v0
