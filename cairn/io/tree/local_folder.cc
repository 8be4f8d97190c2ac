// local_folder.cc -- implements local folders with the *at system calls.
#include <cairn/io/tree/local_folder.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {
namespace {

int open_folder(int below, const std::string& name, const std::string& path) {
  if (path.find('\0') != std::string::npos)
    throw Error(Code::kInvalidArgument, "a path holds a NUL byte");
  const int fd = uninterrupted(
      [&] { return openat(below, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0 && errno == ENOTDIR) fail_file_call(path, "open the folder", errno, Code::kNotFound);
  if (fd < 0) fail_file_call(path, "open the folder", errno);
  return fd;
}

FileIdentity identity_of(const struct stat& status) {
  return {.device = status.st_dev, .inode = status.st_ino};
}

std::int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

FolderPtr LocalFolder::open(std::string path) {
  path.resize(without_final_slashes(path).size());
  const int fd = open_folder(AT_FDCWD, path, path);
  return FolderPtr(new LocalFolder(fd, std::move(path)));
}

FolderPtr LocalFolder::open_below(const std::string& path) const {
  const int fd = open_folder(fd_, relative(path), path);
  auto* const below = new LocalFolder(fd, std::string(without_final_slashes(path)));
  FolderPtr owner(below);
  below->above_ = std::static_pointer_cast<const LocalFolder>(shared_from_this());
  return owner;
}

FolderPtr LocalFolder::open_once(const Directory& above, const std::string& name) {
  const std::string path = above.path_of(name);
  const int fd = open_folder(above.descriptor(), name, path);
  return FolderPtr(new LocalFolder(fd, path, true));
}

FolderPtr LocalFolder::hold(const Directory& directory) {
  const int fd = open_folder(directory.descriptor(), ".", directory.path());
  return FolderPtr(new LocalFolder(fd, directory.path()));
}

LocalFolder::~LocalFolder() { close(fd_); }

std::optional<File> LocalFolder::try_open(const std::string& path) const {
  std::optional<File> file = File::try_open_at(fd_, relative(path), path);
  if (!file) return file;
  file->report_changes_to(changed_);
  check_not_newer(*file);
  return file;
}

File LocalFolder::open_file(const std::string& path) const {
  std::optional<File> file = try_open(path);
  if (file) return *std::move(file);
  fail_no_file(fd_, relative(path), path);
}

bool LocalFolder::exists(const std::string& path) const {
  struct stat status {};
  return fstatat(fd_, relative(path).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

bool LocalFolder::is_folder(const std::string& path) const {
  struct stat status {};
  return fstatat(fd_, relative(path).c_str(), &status, 0) == 0 && S_ISDIR(status.st_mode);
}

std::string LocalFolder::kind_at(const std::string& path) const {
  struct stat status {};
  const std::string name = relative(path);
  if (fstatat(fd_, name.c_str(), &status, 0) != 0 &&
      fstatat(fd_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return "nothing";
  return S_ISREG(status.st_mode) ? "a file" : irregular_kind(status.st_mode);
}

std::optional<std::uint64_t> LocalFolder::file_size(const std::string& path) const {
  struct stat status {};
  const bool is_file =
      fstatat(fd_, relative(path).c_str(), &status, 0) == 0 && S_ISREG(status.st_mode);
  return is_file ? std::optional(static_cast<std::uint64_t>(status.st_size)) : std::nullopt;
}

std::optional<FileIdentity> LocalFolder::identity(const std::string& path) const {
  struct stat status {};
  if (fstatat(fd_, relative(path).c_str(), &status, 0) != 0) return std::nullopt;
  return identity_of(status);
}

std::vector<FolderEntry> LocalFolder::entries(const std::string& path) const {
  if (!remembers_) return read_entries(path);
  const auto found = remembered_.find(path);
  return found != remembered_.end() ? found->second
                                    : remembered_.emplace(path, read_entries(path)).first->second;
}

std::vector<FolderEntry> LocalFolder::read_entries(const std::string& path) const {
  std::vector<FolderEntry> entries;
  const std::string name = relative(path);
  auto reader = remembers_ && name == "." ? DirectoryReader::of(fd_, path)
                                          : DirectoryReader::try_open(fd_, name, path);
  while (const dirent64* entry = reader ? reader->next() : nullptr) {
    const EntryKind kind = reader->kind(*entry);
    bool is_folder = kind == EntryKind::kDirectory;
    if (kind == EntryKind::kLink) {
      struct stat status {};
      is_folder =
          fstatat(reader->descriptor(), entry->d_name, &status, 0) == 0 && S_ISDIR(status.st_mode);
    }
    entries.push_back({entry->d_name, kind, is_folder});
  }
  return entries;
}

void LocalFolder::watch(std::span<const std::string_view> names) const {
  watched_since_ns_ = std::max(watched_since_ns_.value_or(0), now_ns());
  for (const std::string_view name : names) {
    const auto& [watched, state] =
        watched_.emplace_back(name, try_state_at(fd_, std::string(name)));
    // The files of a checkpoint are written before its marker. The clock of a file server may be
    // ahead of this machine's.
    if (state) watched_since_ns_ = std::max(*watched_since_ns_, state->modified_ns);
  }
}

std::optional<std::int64_t> LocalFolder::watched_since_ns() const {
  return watched_since_ns_ || above_ == nullptr ? watched_since_ns_ : above_->watched_since_ns();
}

void LocalFolder::check_not_newer(const File& file) const {
  const std::int64_t modified_ns = file.opened_state().modified_ns;
  const auto since_ns = watched_since_ns();
  // A time in the future says nothing about when the file was written.
  if (!since_ns || modified_ns <= *since_ns || modified_ns > now_ns()) return;
  changed_->store(true, std::memory_order_relaxed);
  throw Error(Code::kUnavailable, file.path() + ": another program wrote to it while Cairn read " +
                                      path() + "; open it again");
}

bool LocalFolder::replaced() const {
  if (changed_->load(std::memory_order_relaxed)) return true;
  const auto has_changed = [&](const auto& file) {
    return try_state_at(fd_, file.first) != file.second;
  };
  if (std::ranges::any_of(watched_, has_changed)) return true;
  if (above_ != nullptr && above_->replaced()) return true;
  struct stat held {};
  struct stat named {};
  if (fstat(fd_, &held) != 0) fail_file_call(path(), "stat the folder", errno);
  if (stat(path().c_str(), &named) != 0) {
    if (is_absence(errno)) return true;
    fail_file_call(path(), "stat the folder", errno);
  }
  return identity_of(held) != identity_of(named);
}

}  // namespace cairn::inline v0
