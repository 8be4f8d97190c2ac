// executor.h -- a bounded thread pool, a byte budget and progress. No thread exists before the
// first parallel call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cairn {

// A fixed number of workers. Safe to use from many threads and from inside its own tasks: the
// caller works too, so nesting cannot deadlock.
class Executor {
 public:
  // threads = 0: as many as the process may run on. 1: everything happens on the calling thread.
  explicit Executor(std::size_t threads = 0);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  [[nodiscard]] std::size_t threads() const { return threads_; }
  // Calls task(0) ... task(n-1), in any order, in parallel, started in ascending order; returns
  // when all have ended. The first exception wins: tasks not yet started are dropped, running ones
  // finish, then it is rethrown here.
  void for_each(std::size_t n, const std::function<void(std::size_t)>& task);

 private:
  struct Pool;
  std::size_t threads_;
  std::once_flag started_;
  std::unique_ptr<Pool> pool_;
};

// The executor of the process, made on first use.
Executor& default_executor();

// Bounds the bytes in flight. A request larger than the whole budget is granted alone.
class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t limit) : limit_(limit) {}

  class Lease {
   public:
    Lease() = default;
    Lease(ByteBudget* budget, std::uint64_t bytes) : budget_(budget), bytes_(bytes) {}
    Lease(Lease&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Lease& operator=(Lease&& other) noexcept;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { release(); }
    void release();

   private:
    ByteBudget* budget_ = nullptr;
    std::uint64_t bytes_ = 0;
  };

  // Blocks until `bytes` fit. A thread must not acquire while it holds a lease of the same budget.
  [[nodiscard]] Lease acquire(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  [[nodiscard]] std::uint64_t peak() const;  // the most that was ever out at once

 private:
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::uint64_t peak_ = 0;
};

// Bytes done out of bytes to do; workers add, a display thread looks.
struct Progress {
  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> done{0};
};

}  // namespace cairn
