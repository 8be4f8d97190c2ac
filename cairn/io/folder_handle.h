// folder_handle.h -- a folder of the local file system held open by its descriptor. Everything that
// is read through the handle belongs to that one folder, even after its path has come to name
// another folder: whoever replaces a folder in one step never gives a reader a mixture of the old
// and the new one.
#pragma once

#include <cairn/error.h>
#include <cairn/io/file.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

// What tells one file or folder from all others, whatever names it has.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
  bool operator<(const FileIdentity& other) const {
    return device != other.device ? device < other.device : inode < other.inode;
  }
};

class FolderHandle {
 public:
  // Error(kNotFound) if nothing is there, Error(kIo) for anything but a folder. `path` is that of
  // the messages, too.
  static std::shared_ptr<const FolderHandle> open(std::string path);
  // A folder below this one.
  [[nodiscard]] std::shared_ptr<const FolderHandle> open_below(const std::string& path) const;
  FolderHandle(const FolderHandle&) = delete;
  FolderHandle& operator=(const FolderHandle&) = delete;
  ~FolderHandle();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return fd_; }

  // All of these take full paths that begin with path(); what lies there is looked up below the
  // descriptor.
  [[nodiscard]] std::optional<File> try_open(const std::string& path) const;  // as File::try_open
  [[nodiscard]] File open_file(const std::string& path) const;                // as File::open
  [[nodiscard]] Bytes read_text(const std::string& path, std::uint64_t max_size) const;
  [[nodiscard]] bool exists(const std::string& path) const;  // anything at that path
  [[nodiscard]] bool is_folder(const std::string& path) const;
  // Names in a folder below (or in this one), in no order, and which of them are folders. Empty if
  // there is no such folder; Error(kIo) if it cannot be listed.
  [[nodiscard]] std::vector<std::pair<std::string, bool>> list(const std::string& path) const;
  // nullopt if nothing is there.
  [[nodiscard]] std::optional<FileIdentity> identity(const std::string& path) const;
  // `path` as openat(2) takes it: relative to the descriptor.
  [[nodiscard]] std::string relative(const std::string& path) const;

  // To be told when something was looked for and not found: it may be missing because the folder is
  // no longer in use, and is being removed.
  void note_missing() const { missed_.store(true, std::memory_order_relaxed); }
  // Nothing of what was missing so far counts: the folder is known to have been in use then. Not
  // while others read.
  void forget_missing() const { missed_.store(false, std::memory_order_relaxed); }
  // Whether the path has come to name another folder, or none.
  [[nodiscard]] bool replaced() const;
  // Error(kUnavailable) if something was missing and the folder has been replaced.
  void check_not_replaced() const;

 private:
  FolderHandle(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  std::string path_;
  mutable std::atomic<bool> missed_{false};
};

using FolderPtr = std::shared_ptr<const FolderHandle>;

// Runs f, which reads below `folder`. What is missing there, and what goes wrong there, is not
// damage if the folder has been replaced: then Error(kUnavailable) says so.
template <class F>
auto in_folder(const FolderHandle* folder, F f) {
  if (folder == nullptr) return f();
  const auto check = [&] {
    folder->note_missing();
    folder->check_not_replaced();
  };
  if constexpr (std::is_void_v<decltype(f())>) {
    try {
      f();
    } catch (const Error&) {
      check();
      throw;
    }
    folder->check_not_replaced();
  } else {
    try {
      auto result = f();
      folder->check_not_replaced();
      return result;
    } catch (const Error&) {
      check();
      throw;
    }
  }
}

}  // namespace cairn
