// file_lock.h -- the right to replace one file of a folder, shared with TensorStore.
//
// TensorStore's local file driver writes a key so: open <path>.__lock, take an exclusive
// open-file-description lock on it, open the name again and start over if it has come to mean
// another file; check the condition; write the value *into the lock file*, sync it, rename it over
// <path>. It does not truncate a lock file that a crash has left, so that old bytes end up behind
// the new value. Cairn holds the same lock but leaves the file empty, writes elsewhere, and removes
// it.
#pragma once

#include <string>

namespace cairn {

class FileLock {
 public:
  // Waits for whoever has it. The folder of `path` must exist.
  explicit FileLock(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  std::string lock_path_;
  int fd_ = -1;
};

}  // namespace cairn
