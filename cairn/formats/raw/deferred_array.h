// deferred_array.h -- an array whose bytes are located when they are first needed: the chunk of a
// Distributed Checkpoint is an archive of its own, and a checkpoint may have a million of them.
#pragma once

#include <cairn/formats/raw/raw_read.h>

#include <mutex>
#include <optional>
#include <vector>

namespace cairn::inline v0 {

class DeferredArray {
 public:
  DeferredArray() = default;
  DeferredArray(const DeferredArray&) = delete;
  DeferredArray& operator=(const DeferredArray&) = delete;
  virtual ~DeferredArray() = default;

  // Where the array is in the reader's files, with what describes it.
  [[nodiscard]] virtual RawRun place() const = 0;
  // Returns the array; the first call locates it. Throws as locate(), every call anew. Any thread
  // may call it.
  const RawArray& get(const std::vector<File>& files) const {
    const std::scoped_lock lock(mutex_);
    if (!found_) found_.emplace(locate(files));
    return *found_;
  }
  // The same, after a call of get() that returned.
  [[nodiscard]] const RawArray& found() const {
    const std::scoped_lock lock(mutex_);
    return found_.value();
  }

 private:
  // Throws data_loss for damage, unimplemented for an array that Cairn does not read.
  [[nodiscard]] virtual RawArray locate(const std::vector<File>& files) const = 0;

  mutable std::mutex mutex_;
  mutable std::optional<RawArray> found_;
};

}  // namespace cairn::inline v0
