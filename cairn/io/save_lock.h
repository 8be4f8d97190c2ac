// save_lock.h -- allows only one save at a time to a path.
//
//   .<name>.cairn-tmp-0   beside <name>: locked (flock) by the process that saves to it;
//                         unlocked: left by a crash
//
// The lock ends with its process. A lock file without a lock is therefore a leftover, and the next
// save takes it over.
#pragma once

#include <cairn/io/temporaries.h>

#include <optional>
#include <string>

namespace cairn::inline v0 {

// The lock of one save, held for the lifetime of the object.
class SaveLock {
 public:
  // Takes the lock for a save to `path`, whose directory must exist. Throws Error(kUnavailable),
  // "another save to this path is in progress", if a live process holds the lock.
  explicit SaveLock(const std::string& path);
  SaveLock(const SaveLock&) = delete;
  SaveLock& operator=(const SaveLock&) = delete;
  ~SaveLock();

  // Returns true if a live process holds the lock for `path`.
  static bool is_held(const std::string& path);
  // Returns the path of the lock file for `path`.
  static std::string file_for(const std::string& path);

 private:
  bool try_take(const std::string& target);

  std::string path_;  // the path of the lock file
  std::optional<NotedTemporary> noted_;
  int fd_ = -1;
};

// Returns true if a live process holds a lock on the file. Not there: false.
bool is_locked(const std::string& file);
// Removes a temporary file or a lock file, unless a live process holds a lock on it. Returns false
// if a process holds a lock.
bool remove_unless_locked(const std::string& file);

}  // namespace cairn::inline v0
