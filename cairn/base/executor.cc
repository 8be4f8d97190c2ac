// executor.cc -- implements the thread pool and the byte budget.
#include <cairn/base/executor.h>

#include <cairn/base/cancellation.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

namespace cairn::inline v0 {
namespace {

std::size_t available_processors() {
  cpu_set_t set;
  // This call fails if the machine has more processors than the set can hold.
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return static_cast<std::size_t>(std::max(CPU_COUNT(&set), 1));
  return std::max(std::thread::hardware_concurrency(), 1U);
}

// One call of for_each. It lives on the caller's stack. The caller returns only when no worker uses
// it and no worker can start to use it.
struct Job {
  std::size_t n;
  const std::function<void(std::size_t)>& task;
  Cancellation cancel = current_cancellation();  // of the caller
  std::atomic<std::size_t> next{0};
  std::size_t workers = 0;     // guarded by Pool::mutex
  std::exception_ptr error{};  // guarded by Pool::mutex

  [[nodiscard]] bool has_work() const { return next.load(std::memory_order_relaxed) < n; }
};

}  // namespace

struct Executor::Pool {
  explicit Pool(std::size_t count) {
    threads.reserve(count);
    try {
      while (threads.size() < count) threads.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      // The system cannot start more threads: the calling thread does the work of the missing ones.
    }
  }
  ~Pool() {
    {
      const std::scoped_lock lock(mutex);
      stopping = true;
    }
    work_came.notify_all();
    for (auto& thread : threads) thread.join();
  }

  void run(Job& job);
  void serve();
  void work_on(Job& job);

  std::mutex mutex;
  std::condition_variable work_came;
  std::condition_variable worker_left;
  std::vector<Job*> jobs;  // newest last
  bool stopping = false;
  std::vector<std::thread> threads;
};

// The caller works only on its own job. If it helped with another job while it waits, it could
// acquire a budget whose lease it already holds further up its stack.
void Executor::Pool::run(Job& job) {
  {
    const std::scoped_lock lock(mutex);
    jobs.push_back(&job);
  }
  const std::size_t wanted = std::min(job.n - 1, threads.size());
  for (std::size_t i = 0; i < wanted; ++i) work_came.notify_one();
  work_on(job);
  std::unique_lock lock(mutex);
  std::erase(jobs, &job);
  worker_left.wait(lock, [&] { return job.workers == 0; });
  if (job.error) std::rethrow_exception(job.error);
}

void Executor::Pool::serve() {
  std::unique_lock lock(mutex);
  while (true) {
    // Take the newest job first: an older job may be waiting for it.
    const auto found =
        std::find_if(jobs.rbegin(), jobs.rend(), [](const Job* job) { return job->has_work(); });
    if (found != jobs.rend()) {
      Job& job = **found;
      ++job.workers;
      lock.unlock();
      work_on(job);
      lock.lock();
      if (--job.workers == 0) worker_left.notify_all();
    } else if (stopping) {
      return;
    } else {
      work_came.wait(lock);
    }
  }
}

void Executor::Pool::work_on(Job& job) {
  const CancellationScope scope(job.cancel);
  while (true) {
    const std::size_t i = job.next.fetch_add(1);
    if (i >= job.n) return;
    try {
      throw_if_cancelled();
      job.task(i);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      job.next = job.n;  // drops the tasks that have not started
      if (!job.error) job.error = std::current_exception();
    }
  }
}

Executor::Executor(std::size_t threads)
    : threads_(threads > 0 ? threads : available_processors()) {}
Executor::~Executor() = default;

void Executor::for_each(std::size_t n, const std::function<void(std::size_t)>& task) {
  if (threads_ == 1 || n <= 1) {
    for (std::size_t i = 0; i < n; ++i) {
      throw_if_cancelled();
      task(i);
    }
    return;
  }
  std::call_once(started_, [this] { pool_ = std::make_unique<Pool>(threads_ - 1); });
  Job job{.n = n, .task = task};
  pool_->run(job);
}

Executor& default_executor() {
  // Never destroyed, because a program may exit while another of its threads is still inside
  // for_each.
  static auto& executor = *new Executor();
  return executor;
}

ByteBudget::Lease& ByteBudget::Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  budget_ = std::exchange(other.budget_, nullptr);
  bytes_ = other.bytes_;
  return *this;
}

void ByteBudget::Lease::release() {
  ByteBudget* const budget = std::exchange(budget_, nullptr);
  if (!budget) return;
  {
    const std::scoped_lock lock(budget->mutex_);
    budget->used_ -= bytes_;
  }
  budget->freed_.notify_all();
}

ByteBudget::Lease ByteBudget::acquire(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return used_ == 0 || (used_ <= limit_ && bytes <= limit_ - used_); });
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return {this, bytes};
}

std::uint64_t ByteBudget::peak() const {
  const std::scoped_lock lock(mutex_);
  return peak_;
}

}  // namespace cairn::inline v0
