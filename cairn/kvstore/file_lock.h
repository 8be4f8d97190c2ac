// file_lock.h -- the exclusive right to replace one file of a folder. The lock protocol is shared
// with TensorStore.
//
// TensorStore's local file driver writes a key in these steps. It opens <path>.__lock and takes an
// exclusive open-file-description lock on it. It opens the name again and starts over if the name
// now refers to another file. It checks the condition, writes the value *into the lock file*, syncs
// it, and renames it over <path>. It does not truncate a lock file that a crash has left, so that
// old bytes can follow the new value. Cairn takes the same lock but leaves the lock file empty,
// writes the value to another file, and removes the lock file.
#pragma once

#include <string>

namespace cairn::inline v0 {

// The lock on one file, held for the lifetime of the object.
class FileLock {
 public:
  // Takes the lock; waits while another process or thread holds it. The folder of `path` must
  // exist.
  explicit FileLock(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  std::string lock_path_;
  int fd_ = -1;
};

}  // namespace cairn::inline v0
