// staging.h -- memory for the copies that a background save makes, used again by the next save. New
// memory costs as much as the copy: the system clears each page at its first use.
#pragma once

#include <cairn/bytes.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace cairn::inline v0 {

// Buffers that are not in use. Safe to use from many threads. Buffers in use may outlive the pool.
class StagingPool : public std::enable_shared_from_this<StagingPool> {
 public:
  // Keeps at most `most` bytes that are not in use. Make it with std::make_shared.
  explicit StagingPool(std::uint64_t most) : most_(most) {}

  // Returns a buffer of at least `size` bytes, with any content. Its last owner gives it back. If
  // no kept buffer is large enough, those that are kept are first freed. Throws as Buffer.
  [[nodiscard]] std::shared_ptr<Buffer> take(std::size_t size);
  // Frees the buffers that are not in use, and keeps none any more.
  void close();

 private:
  void give_back(Buffer buffer) noexcept;

  std::mutex mutex_;
  std::uint64_t most_;
  std::uint64_t kept_bytes_ = 0;
  std::vector<Buffer> kept_;
};

// The writer of a save that has such memory for the copies of type handlers.
class StagingOwner {
 public:
  virtual ~StagingOwner() = default;
  // Null: there is none.
  [[nodiscard]] virtual const std::shared_ptr<StagingPool>& staging() const = 0;
};

}  // namespace cairn::inline v0
