// directory.h -- directories: open, list, remove, rename in one step, and sync with all files.
// Errors name the path and the system's reason, as for files.
#pragma once

#include <cairn/io/file.h>
#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Throws unimplemented for a URL, of which a local file system would make folders of odd names.
void refuse_url(const std::string& path);

// Returns the absolute path without "." and "..", and without a final '/' (except for the root
// itself). The directories above the last name are resolved as the kernel resolves them: after a
// symbolic link, ".." is the parent of the link's target. The last name may be a link and is not
// resolved. Throws as refuse_url().
std::string absolute_path(const std::string& path);

// The kind of a directory entry. Symbolic links are not followed.
enum class EntryKind : std::uint8_t { kAbsent, kFile, kDirectory, kLink, kOther };
// One entry of a directory.
struct DirectoryEntry {
  std::string name;
  EntryKind kind = EntryKind::kAbsent;
};
// Returns the kind as words for messages: "a directory", "a symbolic link", ...
std::string_view entry_kind_text(EntryKind kind);

// A directory that is held open. Names are looked up in this directory, even if it is moved or its
// path names another directory. Copies share one descriptor.
class Directory {
 public:
  static Directory open(const std::string& path);  // follows symbolic links

  // The path by which it was opened, absolute and without links: for messages, and for code that
  // takes paths.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return *fd_; }
  // The path of an entry.
  [[nodiscard]] std::string path_of(std::string_view name) const;
  // The kind of the entry `name`; kAbsent if it does not exist.
  [[nodiscard]] EntryKind kind(const std::string& name) const;
  // Opens a directory in this one. Throws Error(kIo) for a symbolic link.
  [[nodiscard]] Directory child(const std::string& name) const;
  // Returns all entries, sorted by name.
  [[nodiscard]] std::vector<DirectoryEntry> list() const;
  // True if both are the same directory.
  [[nodiscard]] bool is_same(const Directory& other) const;
  // True if the entry `name` is still the directory `that`.
  [[nodiscard]] bool names(const std::string& name, const Directory& that) const;

  // Creates a directory. Returns false if the name is taken.
  [[nodiscard]] bool make(const std::string& name) const;
  // Renames `from` to `to` in one step. Throws already_exists if the name `to` is taken.
  void rename(const std::string& from, const std::string& to) const;
  // As rename(), into another directory of the same file system.
  void move(const std::string& from, const Directory& into, const std::string& to) const;
  // Swaps the names of two entries in one step. Returns false if the file system does not support
  // this; in that case nothing has changed.
  [[nodiscard]] bool swap(const std::string& a, const std::string& b) const;
  // Removes an entry and everything below it. Removes links and does not follow them. Succeeds if
  // the entry does not exist.
  void remove(const std::string& name) const;
  // Syncs the directory, so that its names survive a power loss.
  void sync() const;

 private:
  Directory(int fd, std::string path);

  std::shared_ptr<const int> fd_;
  std::string path_;
};

// The entries of a directory that is being listed, without "." and "..".
class DirectoryReader {
 public:
  // Opens the directory `name` below the descriptor `below`; `path` is for messages. Returns
  // nullopt if no directory is there. Throws Error(kIo) if it cannot be listed.
  static std::optional<DirectoryReader> try_open(int below, const std::string& name,
                                                 std::string path);
  // Lists the directory with the open descriptor `fd`, which stays open. Its read position must be
  // at the start, and nobody else may list it through this descriptor.
  static DirectoryReader of(int fd, std::string path);
  DirectoryReader(DirectoryReader&& other) noexcept;
  DirectoryReader& operator=(DirectoryReader&& other) = delete;
  DirectoryReader(const DirectoryReader&) = delete;
  DirectoryReader& operator=(const DirectoryReader&) = delete;
  ~DirectoryReader();

  [[nodiscard]] int descriptor() const { return fd_; }
  // Returns the next entry, or null at the end. The entry is valid until the next call.
  const dirent64* next();
  // The kind of an entry; kAbsent if it has been removed meanwhile. Not every file system tells it
  // in a listing.
  [[nodiscard]] EntryKind kind(const dirent64& entry) const;

 private:
  DirectoryReader(int fd, bool owns, std::string path);

  int fd_;
  bool owns_;
  std::string path_;
  // readdir(3) takes four more system calls for each directory.
  std::unique_ptr<std::byte[]> entries_;  // NOLINT(modernize-avoid-c-arrays)
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

// Returns the names in a directory; none if it does not exist.
std::set<std::string, std::less<>> names_in(const std::string& directory);

// Calls `f` with the path and the kind of every entry below the folder, in no particular order. A
// folder comes before what it contains. Does not follow links.
void for_each_below(const std::string& path,
                    const std::function<void(const std::string& path, EntryKind kind)>& f);

// Removes the folder (or file) and everything below it. Removes links and does not follow them.
// Succeeds if nothing exists at the path, or if another process removes the same at the same time.
void remove_tree(const std::string& path);
// Removes one name of a file or link. Succeeds if nothing exists there. Throws Error(kIo) for a
// directory.
void remove_file(const std::string& path);

// Gives the file `name`, below the folder with the open descriptor `below`, the second name `to` (a
// hard link). Refuses all but regular files, also symbolic links. Returns "" or the reason.
std::string link_file(int below, const std::string& name, const std::string& to);

// Files that share their bytes with other checkpoints, and whether this process has synced them. A
// file is known by its state: if its bytes are on disk, they are so under every name. Safe to use
// from many threads.
class SyncedFiles {
 public:
  // Adds the files of one save. The state of each must change with every later write to it
  // (File::stamp). Forgets those of the oldest save.
  void track(const std::set<FileState>& files);
  // Returns whether the file is tracked and was synced in this state.
  [[nodiscard]] bool has(const FileState& file) const;
  // Notes that files are synced. Those that are not tracked are ignored.
  void note(const std::set<FileState>& files);

 private:
  static constexpr std::size_t kMostSaves = 16;  // each database of a checkpoint counts

  [[nodiscard]] bool is_synced(const FileState& file) const;

  mutable std::mutex mutex_;
  std::deque<std::map<FileState, bool>> saves_;  // the newest first; true: synced
};

// Syncs `path` and every file and folder below it, so that they survive a power loss. Leaves out
// the files that `synced` has, and notes there those that it has synced.
void sync_tree(const std::string& path, SyncedFiles* synced = nullptr);
// As sync_tree, for some files and folders, all of which lie below `path`.
void sync_some(const std::string& path, std::vector<std::string> files,
               const std::vector<std::string>& folders, SyncedFiles* synced = nullptr);

}  // namespace cairn::inline v0
