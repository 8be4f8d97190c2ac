// executor.h -- a bounded thread pool, a byte budget and a progress counter. No thread is started
// before the first parallel call.
//
// Work that waits for a network says so with expect_waiting(). The pool then runs more tasks at
// once than it has workers, because a waiting thread needs no processor.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Call it before a wait for a network. Every call of for_each that this thread works for may then
// run `tasks` tasks at once, until it returns: on threads that work on such calls alone.
void expect_waiting(std::size_t tasks);

// A thread pool with a fixed number of workers. Many threads may use it at once, also from inside
// its own tasks: the calling thread works too, so nested calls cannot deadlock.
class Executor {
 public:
  // threads = 0: as many threads as the process may run on. threads = 1: everything runs on the
  // calling thread.
  explicit Executor(std::size_t threads = 0);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  [[nodiscard]] std::size_t threads() const { return threads_; }
  // Calls task(0) ... task(n-1) in parallel. The tasks start in ascending order and may run and end
  // in any order. Returns when all have ended. If a task throws, the first exception wins: tasks
  // that have not started are dropped, running tasks finish, and the exception is rethrown here.
  void for_each(std::size_t n, const std::function<void(std::size_t)>& task);

  // Work on a processor, between waits: as many threads as the executor has workers hold a turn at
  // once, others wait. A thread that holds one must not wait for anything that takes long.
  class Turn {
   public:
    explicit Turn(Executor& executor) : executor_(executor) { executor.turns_.acquire(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { executor_.turns_.release(); }

   private:
    Executor& executor_;
  };

 private:
  struct Job;
  struct Pool;
  friend void expect_waiting(std::size_t tasks);
  std::size_t threads_;
  std::counting_semaphore<> turns_;
  std::once_flag started_;
  std::unique_ptr<Pool> pool_;
};

// The default executor of the process, created on first use.
Executor& default_executor();

// The workers of a call whose options ask for `threads`: an executor of its own, or for 0 the
// default one.
class Workers {
 public:
  explicit Workers(std::size_t threads)
      : own_(threads == 0 ? nullptr : std::make_unique<Executor>(threads)) {}
  [[nodiscard]] Executor& executor() const { return own_ ? *own_ : default_executor(); }

 private:
  std::unique_ptr<Executor> own_;
};

// Bounds the bytes in flight. A request that is larger than the whole budget is granted when no
// other lease is held.
class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t limit) : limit_(limit) {}

  // A share of the budget; the destructor returns it.
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

  // Blocks until `bytes` fit into the budget. A thread must not acquire a lease while it holds
  // another lease of the same budget.
  [[nodiscard]] Lease acquire(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  [[nodiscard]] std::uint64_t peak() const;  // the maximum of bytes held at once

 private:
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::uint64_t peak_ = 0;
};

// The number of bytes done and the total. Workers add to the counters, and a display thread reads
// them.
struct Progress {
  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> done{0};
};

}  // namespace cairn::inline v0
