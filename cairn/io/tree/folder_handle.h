// folder_handle.h -- FolderHandle, a folder that is held: all reads through it go to that one
// folder, even after its path names another one. If a writer replaces a folder, a reader therefore
// never gets a mixture of the old and the new folder.
#pragma once

#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Identifies a file or folder independent of its names.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
  bool operator<(const FileIdentity& other) const {
    return device != other.device ? device < other.device : inode < other.inode;
  }
};

// One entry of a folder. `kind` tells a link from what it leads to; `is_folder` follows links.
struct FolderEntry {
  std::string name;
  EntryKind kind = EntryKind::kAbsent;
  bool is_folder = false;
};

// A folder for reading: of a local file system (LocalFolder), or the keys below a prefix of a store
// (StoreFolder). Its functions take full paths that begin with path().
class FolderHandle : public std::enable_shared_from_this<FolderHandle> {
 public:
  FolderHandle(const FolderHandle&) = delete;
  FolderHandle& operator=(const FolderHandle&) = delete;
  virtual ~FolderHandle() = default;

  // Without a final '/'. Also appears in messages.
  [[nodiscard]] const std::string& path() const { return path_; }
  // True if the folder is one of a local file system.
  [[nodiscard]] virtual bool is_local() const = 0;
  // Opens a folder below this one. Throws Error(kNotFound) if nothing exists at the path.
  [[nodiscard]] virtual std::shared_ptr<const FolderHandle> open_below(
      const std::string& path) const = 0;

  // As File::try_open and File::open. If the file was written to after the folder was opened or
  // watched, so that it may be of another save than those read before, they throw
  // Error(kUnavailable).
  [[nodiscard]] virtual std::optional<File> try_open(const std::string& path) const = 0;
  [[nodiscard]] virtual File open_file(const std::string& path) const = 0;
  // Reads a text file, as cairn::read_text does.
  [[nodiscard]] Buffer read_text(const std::string& path, std::uint64_t max_size) const {
    return cairn::read_text(open_file(path), max_size);
  }
  // True if anything exists there, including a link that leads nowhere.
  [[nodiscard]] virtual bool exists(const std::string& path) const = 0;
  [[nodiscard]] virtual bool is_folder(const std::string& path) const = 0;
  // What is at the path, as words for messages: "a file", "a directory", "a pipe", ..., "nothing".
  [[nodiscard]] virtual std::string kind_at(const std::string& path) const = 0;
  // Lists this folder or a folder below it, in no particular order. Returns an empty list if the
  // folder does not exist. Throws Error(kIo) if it cannot be listed.
  [[nodiscard]] virtual std::vector<FolderEntry> entries(const std::string& path) const = 0;
  // As entries(): pairs of name and whether it is a folder.
  [[nodiscard]] std::vector<std::pair<std::string, bool>> list(const std::string& path) const;
  // Returns the identity of a file or folder, or nullopt if nothing exists at the path.
  [[nodiscard]] virtual std::optional<FileIdentity> identity(const std::string& path) const = 0;
  // Returns the size of the file in bytes; nullopt if no file exists at the path.
  [[nodiscard]] virtual std::optional<std::uint64_t> file_size(const std::string& path) const = 0;

  // The caller is about to read these files, in any order. A store that is far away is asked for
  // the small ones at once. Files that do not exist are left out.
  virtual void prefetch(const std::vector<std::string>& /*paths*/) const {}

  // Watches the folder from now on. Remembers the state of files, which are given relative to the
  // folder ("name", "../name"). A writer that replaces the content of the folder file by file,
  // without renaming the folder, changes one of them before it removes anything else. Call it
  // before anything is read, from one thread.
  virtual void watch(std::span<const std::string_view> names) const = 0;

  // Call it when something was not found. It may be missing because the folder is no longer in use
  // and is being removed.
  void note_missing() const { missed_.store(true, std::memory_order_relaxed); }
  // Clears the record of note_missing(). Call it when the folder is known to have been in use until
  // now. Do not call it while other threads read.
  void forget_missing() const { missed_.store(false, std::memory_order_relaxed); }
  // True if the path now names another folder, or none, or if a file has changed that was opened
  // here, or that is watched.
  [[nodiscard]] virtual bool replaced() const = 0;
  // Throws Error(kUnavailable) if something was missing and the folder has been replaced.
  void check_not_replaced() const;
  // Throws Error(kUnavailable) if the folder has been replaced.
  void check_still_in_use() const;

  // Returns `path` relative to this folder; "." for the folder itself. Throws invalid_argument for
  // a path that is not inside.
  [[nodiscard]] std::string relative(const std::string& path) const;

 protected:
  explicit FolderHandle(std::string path) : path_(std::move(path)) {}

 private:
  std::string path_;
  mutable std::atomic<bool> missed_{false};
};

using FolderPtr = std::shared_ptr<const FolderHandle>;

// Runs f, which reads below `folder`, and returns its result. If the folder has been replaced,
// missing data and other errors are not damage: the function then throws Error(kUnavailable). If
// `folder` is null, it only runs f.
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
    } catch (const Error& e) {
      if (e.code() != Code::kUnavailable) check();
      throw;
    }
    folder->check_not_replaced();
  } else {
    try {
      auto result = f();
      folder->check_not_replaced();
      return result;
    } catch (const Error& e) {
      if (e.code() != Code::kUnavailable) check();
      throw;
    }
  }
}

}  // namespace cairn::inline v0
