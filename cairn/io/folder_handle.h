// folder_handle.h -- holds a folder of the local file system open by its descriptor. All reads
// through the handle go to that one folder, even after its path names another folder. If a writer
// replaces a folder in one step, a reader therefore never gets a mixture of the old and the new
// folder.
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
#include <unordered_map>
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

// An open folder.
class FolderHandle : public std::enable_shared_from_this<FolderHandle> {
 public:
  // Opens a folder. Throws Error(kNotFound) if nothing exists at the path and Error(kIo) if it is
  // not a folder. `path` also appears in messages.
  static std::shared_ptr<const FolderHandle> open(std::string path);
  // Opens a folder below this one.
  [[nodiscard]] std::shared_ptr<const FolderHandle> open_below(const std::string& path) const;
  // Opens the folder `name` in `above`, and lists each folder once: it remembers the entries. Only
  // one thread may use it. Throws Error(kNotFound) and Error(kIo) as open().
  static std::shared_ptr<const FolderHandle> open_once(const Directory& above,
                                                       const std::string& name);
  FolderHandle(const FolderHandle&) = delete;
  FolderHandle& operator=(const FolderHandle&) = delete;
  ~FolderHandle();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return fd_; }

  // The following functions take full paths that begin with path(). They look up the rest of the
  // path below the descriptor.
  // As File::try_open and File::open. If the folder, or the one above it, is watched and the file
  // was written to after that began, they throw Error(kUnavailable): the file is of another save
  // than those read before.
  [[nodiscard]] std::optional<File> try_open(const std::string& path) const;
  [[nodiscard]] File open_file(const std::string& path) const;
  // Reads a text file, as cairn::read_text does.
  [[nodiscard]] Buffer read_text(const std::string& path, std::uint64_t max_size) const;
  [[nodiscard]] bool exists(const std::string& path) const;  // true if anything exists there
  [[nodiscard]] bool is_folder(const std::string& path) const;
  // Lists this folder or a folder below it: pairs of name and whether it is a folder, in no
  // particular order. Returns an empty list if the folder does not exist. Throws Error(kIo) if it
  // cannot be listed.
  [[nodiscard]] std::vector<std::pair<std::string, bool>> list(const std::string& path) const;
  [[nodiscard]] std::vector<FolderEntry> entries(const std::string& path) const;  // as list()
  // Returns the identity of a file or folder, or nullopt if nothing exists at the path.
  [[nodiscard]] std::optional<FileIdentity> identity(const std::string& path) const;
  // Returns `path` relative to the descriptor, as openat(2) takes it.
  [[nodiscard]] std::string relative(const std::string& path) const;

  // Watches the folder from now on. Remembers the state of files, which are given relative to the
  // folder ("name", "../name"). A writer that replaces the content of the folder file by file,
  // without renaming the folder, changes one of them before it removes anything else. Call it
  // before anything is read, from one thread.
  void watch(std::span<const std::string_view> names) const;

  // Call it when something was not found. It may be missing because the folder is no longer in use
  // and is being removed.
  void note_missing() const { missed_.store(true, std::memory_order_relaxed); }
  // Clears the record of note_missing(). Call it when the folder is known to have been in use until
  // now. Do not call it while other threads read.
  void forget_missing() const { missed_.store(false, std::memory_order_relaxed); }
  // True if the path now names another folder, or none, or if a file has changed that was opened
  // here, or that this folder or the one above it watches.
  [[nodiscard]] bool replaced() const;
  // Throws Error(kUnavailable) if something was missing and the folder has been replaced.
  void check_not_replaced() const;
  // Throws Error(kUnavailable) if the folder has been replaced.
  void check_still_in_use() const;

 private:
  FolderHandle(int fd, std::string path, bool remembers = false)
      : fd_(fd), path_(std::move(path)), remembers_(remembers) {}
  [[nodiscard]] std::vector<FolderEntry> read_entries(const std::string& path) const;
  // Of this folder, or else of the one above it.
  [[nodiscard]] std::optional<std::int64_t> watched_since_ns() const;
  void check_not_newer(const File& file) const;

  int fd_;
  std::string path_;
  bool remembers_;
  std::shared_ptr<const FolderHandle> above_;  // that open_below() was called for
  mutable std::vector<std::pair<std::string, std::optional<FileState>>> watched_;
  // Files of the checkpoint have no later time, in nanoseconds since 1970; nullopt: not watched.
  mutable std::optional<std::int64_t> watched_since_ns_;
  mutable std::unordered_map<std::string, std::vector<FolderEntry>> remembered_;
  mutable std::atomic<bool> missed_{false};
  // Set by the files that were opened here; they may live longer.
  std::shared_ptr<std::atomic<bool>> changed_ = std::make_shared<std::atomic<bool>>(false);
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
