// progress_pump.h -- periodically reports the progress of parallel work to a callback.
#pragma once

#include <cairn/base/executor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace cairn::inline v0 {

// Calls a function with (bytes done, total bytes) from its own thread every 100 ms, for the
// lifetime of the object. `progress` and `call` belong to the caller and must outlive the object.
// For an empty function no thread is started.
class ProgressPump {
 public:
  using Call = std::function<void(std::uint64_t, std::uint64_t)>;

  ProgressPump(const Progress& progress, const Call& call) : progress_(progress), call_(call) {
    if (call_) thread_ = std::thread([this] { run(); });
  }
  ProgressPump(const ProgressPump&) = delete;
  ProgressPump& operator=(const ProgressPump&) = delete;
  ~ProgressPump() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  static constexpr auto kInterval = std::chrono::milliseconds(100);

  void run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kInterval, [this] { return stop_; }))
      call_(progress_.done, progress_.total);
  }

  const Progress& progress_;
  const Call& call_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace cairn::inline v0
