// output_lock.h -- locks the files that a save writes, and removes what killed saves have left
// there.
#pragma once

#include <cairn/io/save_lock.h>

#include <string>

namespace cairn::inline v0 {

// Holds the SaveLock of a save to files until it is destroyed.
class OutputLock {
 public:
  // Takes the SaveLock at save_lock_path(file). Then removes the temporary files that killed saves
  // to the same files have left. Throws as SaveLock does.
  explicit OutputLock(const std::string& file);

 private:
  SaveLock lock_;
};

}  // namespace cairn::inline v0
