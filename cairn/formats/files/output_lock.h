// output_lock.h -- the lock of a save to files, and what earlier saves have left of them.
#pragma once

#include <cairn/io/save_lock.h>

#include <string>

namespace cairn {

class OutputLock {
 public:
  // Takes the SaveLock at save_lock_path(file), and removes the temporary files that killed saves
  // to the same files have left. Throws as SaveLock.
  explicit OutputLock(const std::string& file);

 private:
  SaveLock lock_;
};

}  // namespace cairn
