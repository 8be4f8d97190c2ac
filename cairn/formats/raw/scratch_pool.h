// scratch_pool.h -- ScratchPool, buffers that the tasks of one bulk read share.
#pragma once

#include <cairn/bytes.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Buffers of `size` bytes. Tasks reuse them, so that their pages are touched only once.
// All together take the memory that the read may use, but there is at least one.
class ScratchPool {
 public:
  ScratchPool(std::size_t size, std::uint64_t memory)
      : size_(size), left_(std::max<std::uint64_t>(memory / std::max<std::size_t>(size, 1), 1)) {}

  // A buffer in use. Waits while there is none.
  class Loan {
   public:
    explicit Loan(ScratchPool& pool) : pool_(pool), buffer_(pool.take()) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { pool_.give(std::move(buffer_)); }
    [[nodiscard]] std::byte* data() { return buffer_.data(); }

   private:
    ScratchPool& pool_;
    Buffer buffer_;
  };

 private:
  Buffer take() {
    {
      std::unique_lock lock(mutex_);
      given_.wait(lock, [&] { return !free_.empty() || left_ > 0; });
      if (!free_.empty()) {
        Buffer buffer = std::move(free_.back());
        free_.pop_back();
        return buffer;
      }
      --left_;
    }
    return Buffer(size_);
  }
  void give(Buffer buffer) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(buffer));
    }
    given_.notify_one();
  }

  std::size_t size_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::uint64_t left_;  // buffers that may still be made
  std::vector<Buffer> free_;
};

}  // namespace cairn::inline v0
