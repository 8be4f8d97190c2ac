// directory.h -- directories: held open, listed, removed, made durable, put into place in one step.
// Errors name the path and the system's reason, as those of files do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// The path from the root, without "." and "..", and without a '/' at its end (but for the root
// itself). The directories above the last name are resolved as the kernel resolves them: behind a
// symbolic link, ".." is the parent of the link's target. The last name may be a link and stays.
std::string absolute_path(const std::string& path);

// What has a name in a directory. Symbolic links are not followed.
enum class EntryKind : std::uint8_t { kAbsent, kFile, kDirectory, kLink, kOther };
struct DirectoryEntry {
  std::string name;
  EntryKind kind = EntryKind::kAbsent;
};
// "a directory", "a symbolic link", ...
std::string_view entry_kind_text(EntryKind kind);

// A directory that is held open. Names are looked up in this directory, wherever it is moved to and
// whatever its path means by then. Copies share one descriptor.
class Directory {
 public:
  static Directory open(const std::string& path);  // symbolic links in the path are followed

  // The path it was opened by, absolute and free of links: for messages, and for code that takes
  // paths.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(std::string_view name) const;
  [[nodiscard]] EntryKind kind(const std::string& name) const;
  // A directory in this one. Throws Error(kIo) for a symbolic link.
  [[nodiscard]] Directory child(const std::string& name) const;
  // Sorted by name.
  [[nodiscard]] std::vector<DirectoryEntry> list() const;
  // Whether both are the same directory.
  [[nodiscard]] bool is_same(const Directory& other) const;
  // Whether `name` still is that directory.
  [[nodiscard]] bool names(const std::string& name, const Directory& that) const;

  // False if something has that name.
  [[nodiscard]] bool make(const std::string& name) const;
  // Gives `from` the name `to`, in one step. already_exists if something has that name.
  void rename(const std::string& from, const std::string& to) const;
  // Lets two entries swap names in one step. False: the file system cannot, and nothing has
  // changed.
  [[nodiscard]] bool swap(const std::string& a, const std::string& b) const;
  // Removes an entry with everything below it. Links are removed, not followed. Fine if it is
  // absent.
  void remove(const std::string& name) const;
  // Makes its names survive a loss of power.
  void sync() const;

 private:
  Directory(int fd, std::string path);

  std::shared_ptr<const int> fd_;
  std::string path_;
};

// Removes the folder (or file) with everything below it; links are removed, not followed. Fine if
// nothing is there.
void remove_tree(const std::string& path);
// Removes one name of a file or link. Fine if nothing is there; Error(kIo) for a directory.
void remove_file(const std::string& path);

// Makes every file and folder below `path`, and itself, survive a loss of power. Files that are on
// disk already cost nothing.
void sync_tree(const std::string& path);
// The same for some files and folders, all of which lie below `path`.
void sync_some(const std::string& path, std::vector<std::string> files,
               const std::vector<std::string>& folders);

}  // namespace cairn
