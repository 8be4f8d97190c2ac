// save_lock.h -- one save at a time to one path.
//
//   <path>.cairn-tmp-0    locked (flock) by the process that saves to <path>; unlocked: left by a
//   crash
//
// The lock goes with its process, so a file that nobody has locked is a leftover, and the next save
// takes it over.
#pragma once

#include <cairn/io/temporaries.h>

#include <optional>
#include <string>

namespace cairn {

class SaveLock {
 public:
  // Takes the lock for a save to `path`, whose directory must exist. Throws Error(kUnavailable),
  // "another save to this path is in progress", if a live process has it.
  explicit SaveLock(const std::string& path);
  SaveLock(const SaveLock&) = delete;
  SaveLock& operator=(const SaveLock&) = delete;
  ~SaveLock();

  // Whether a live process has the lock for a path.
  static bool is_held(const std::string& path);
  // The name of the file for a path.
  static std::string file_for(const std::string& path);

 private:
  bool try_take();

  std::string path_;  // of the lock's file
  std::optional<NotedTemporary> noted_;
  int fd_ = -1;
};

// Removes a temporary file, or the file of a lock, unless a live process has it locked. False: it
// has.
bool remove_unless_locked(const std::string& file);

}  // namespace cairn
