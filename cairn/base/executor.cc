// executor.cc -- implements the thread pool and the byte budget.
#include <cairn/base/executor.h>

#include <cairn/base/cancellation.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

namespace cairn::inline v0 {
namespace {

std::size_t available_processors() {
  cpu_set_t set;
  // This call fails if the machine has more processors than the set can hold.
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return static_cast<std::size_t>(std::max(CPU_COUNT(&set), 1));
  return std::max(std::thread::hardware_concurrency(), 1U);
}

}  // namespace

// One call of for_each. It lives on the caller's stack. The caller returns only when no worker uses
// it and no worker can start to use it.
struct Executor::Job {
  std::size_t n;
  const std::function<void(std::size_t)>& task;
  Pool& pool;
  Job* parent;  // the call that made this one in one of its tasks; null: none
  Cancellation cancel = current_cancellation();  // of the caller
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> most_waiting{0};  // how many waiting threads may help
  // guarded by Pool::mutex
  std::size_t workers = 0;  // without the caller
  std::size_t waiting = 0;  // those of them that are waiting threads
  std::exception_ptr error{};

  [[nodiscard]] bool has_work() const { return next.load(std::memory_order_relaxed) < n; }
  [[nodiscard]] bool wants(bool waiting_thread) const {
    return has_work() && (!waiting_thread || waiting < most_waiting);
  }
};

struct Executor::Pool {
  explicit Pool(std::size_t count) : workers(count) { start_threads(threads, count, false); }
  ~Pool() {
    {
      const std::scoped_lock lock(mutex);
      stopping = true;
    }
    work_came.notify_all();
    wait_came.notify_all();
    for (auto& thread : threads) thread.join();
    for (auto& thread : waiting_threads) thread.join();
  }

  void run(Job& job);
  void widen(Job& job, std::size_t tasks);
  void start_threads(std::vector<std::thread>& into, std::size_t count, bool waiting_thread);
  void serve(bool waiting_thread);
  static void work_on(Job& job);

  static thread_local Job* current;  // what this thread works on

  const std::size_t workers;
  std::mutex mutex;
  std::condition_variable work_came;  // for `threads`
  std::condition_variable wait_came;  // for `waiting_threads`
  std::condition_variable worker_left;
  std::vector<Job*> jobs;  // newest last
  bool stopping = false;
  std::vector<std::thread> threads;
  std::vector<std::thread> waiting_threads;
};

thread_local Executor::Job* Executor::Pool::current = nullptr;

// If the system cannot start more threads, the others do the work of the missing ones.
void Executor::Pool::start_threads(std::vector<std::thread>& into, std::size_t count,
                                   bool waiting_thread) {
  into.reserve(count);
  try {
    while (into.size() < count) into.emplace_back([=, this] { serve(waiting_thread); });
  } catch (const std::system_error&) {
    return;
  }
}

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

// Lets as many threads work on the job that `tasks` of its tasks run at once.
void Executor::Pool::widen(Job& job, std::size_t tasks) {
  const std::size_t wanted = std::min(tasks, job.n);
  const std::size_t more = wanted - std::min(wanted, workers + 1);
  if (job.most_waiting >= more) return;
  {
    const std::scoped_lock lock(mutex);
    job.most_waiting = std::max<std::size_t>(job.most_waiting, more);
    start_threads(waiting_threads, more, true);
  }
  wait_came.notify_all();
}

void Executor::Pool::serve(bool waiting_thread) {
  std::unique_lock lock(mutex);
  while (true) {
    // Take the newest job first: an older job may be waiting for it.
    const auto found = std::find_if(jobs.rbegin(), jobs.rend(),
                                    [&](const Job* job) { return job->wants(waiting_thread); });
    if (found != jobs.rend()) {
      Job& job = **found;
      ++job.workers;
      if (waiting_thread) ++job.waiting;
      lock.unlock();
      work_on(job);
      lock.lock();
      if (waiting_thread) --job.waiting;
      if (--job.workers == 0) worker_left.notify_all();
    } else if (stopping) {
      return;
    } else {
      (waiting_thread ? wait_came : work_came).wait(lock);
    }
  }
}

void Executor::Pool::work_on(Job& job) {
  const CancellationScope scope(job.cancel);
  Job* const outer = std::exchange(current, &job);
  while (true) {
    const std::size_t i = job.next.fetch_add(1);
    if (i >= job.n) break;
    try {
      throw_if_cancelled();
      job.task(i);
    } catch (...) {
      const std::scoped_lock lock(job.pool.mutex);
      job.next = job.n;  // drops the tasks that have not started
      if (!job.error) job.error = std::current_exception();
    }
  }
  current = outer;
}

Executor::Executor(std::size_t threads)
    : threads_(threads > 0 ? threads : available_processors()),
      turns_(static_cast<std::ptrdiff_t>(threads_)) {}
Executor::~Executor() = default;

void Executor::for_each(std::size_t n, const std::function<void(std::size_t)>& task) {
  if (n == 0) return;
  if (n == 1) {
    throw_if_cancelled();
    return task(0);
  }
  std::call_once(started_, [this] { pool_ = std::make_unique<Pool>(threads_ - 1); });
  Job job{.n = n, .task = task, .pool = *pool_, .parent = Pool::current};
  pool_->run(job);
}

void expect_waiting(std::size_t tasks) {
  for (auto* job = Executor::Pool::current; job != nullptr; job = job->parent)
    job->pool.widen(*job, tasks);
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
