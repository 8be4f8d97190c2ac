// background_task.h -- work in a thread of its own, whose error reaches one caller.
#pragma once

#include <functional>
#include <future>
#include <mutex>

namespace cairn::inline v0::orbax {

// Runs one piece of work at a time. Safe to use from several threads.
class BackgroundTask {
 public:
  BackgroundTask() = default;
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;
  // Waits for the work. Its error is lost.
  ~BackgroundTask();

  // Starts the work. Waits for the work before and throws its error, in which case it starts
  // nothing.
  void start(std::function<void()> work);
  // Waits until the work has ended. Throws its error, once.
  void wait();
  // Throws the error of work that has ended, once. Does not wait.
  void check();
  [[nodiscard]] bool is_running() const;

 private:
  [[nodiscard]] std::shared_future<void> current() const;

  mutable std::mutex mutex_;
  std::shared_future<void> result_;  // valid until somebody has asked for the result
};

}  // namespace cairn::inline v0::orbax
