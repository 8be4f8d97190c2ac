// progress_pump.h -- periodically reports the progress of parallel work to a callback.
#pragma once

#include <cairn/base/cancellation.h>
#include <cairn/base/executor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace cairn::inline v0 {

// Called with (bytes done, total bytes). Null: nobody wants to know.
using ProgressCall = std::function<void(std::uint64_t, std::uint64_t)>;

// Calls a function from its own thread every 100 ms until it is stopped. `progress` and `call`
// belong to the caller and must outlive the object.
class ProgressPump {
 public:
  ProgressPump(const Progress& progress, const ProgressCall& call)
      : progress_(progress), call_(call), thread_([this] { run(); }) {}
  ProgressPump(const ProgressPump&) = delete;
  ProgressPump& operator=(const ProgressPump&) = delete;
  ~ProgressPump() { stop(); }

  // Requested when the function has thrown; it is not called again.
  [[nodiscard]] std::stop_token failed() const { return failed_.get_token(); }
  // Ends the calls. Returns what the function has thrown, or null.
  std::exception_ptr stop() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    return error_;
  }

 private:
  static constexpr auto kInterval = std::chrono::milliseconds(100);

  void run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kInterval, [this] { return stops_; })) {
      try {
        call_(progress_.done, progress_.total);
      } catch (...) {
        error_ = std::current_exception();
        failed_.request_stop();
        return;
      }
    }
  }

  const Progress& progress_;
  const ProgressCall& call_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stops_ = false;
  std::exception_ptr error_;
  std::stop_source failed_;
  std::thread thread_;  // the last member: it uses the others
};

// Does the work, and calls `call` meanwhile about ten times a second. At the end, calls it with the
// total twice. An exception of `call` asks the work to stop, and is thrown when it has ended.
template <class Work>
void with_progress(const Progress& progress, const ProgressCall& call, Work&& work) {
  if (!call) return work();
  ProgressPump pump(progress, call);
  try {
    const CancellationScope scope(current_cancellation().or_by(pump.failed()));
    work();
  } catch (...) {
    if (const auto error = pump.stop()) std::rethrow_exception(error);
    throw;
  }
  if (const auto error = pump.stop()) std::rethrow_exception(error);
  call(progress.total, progress.total);
}

}  // namespace cairn::inline v0
