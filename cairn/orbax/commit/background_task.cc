// background_task.cc -- keeps the result of the work until somebody asks for it.
#include <cairn/orbax/commit/background_task.h>

#include <chrono>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

bool has_ended(const std::shared_future<void>& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

BackgroundTask::~BackgroundTask() {
  if (result_.valid()) result_.wait();
}

std::shared_future<void> BackgroundTask::current() const {
  const std::lock_guard lock(mutex_);
  return result_;
}

void BackgroundTask::start(std::function<void()> work) {
  wait();
  const std::lock_guard lock(mutex_);
  result_ = std::async(std::launch::async, std::move(work)).share();
}

void BackgroundTask::wait() {
  const std::shared_future<void> waiting = current();
  if (!waiting.valid()) return;
  waiting.wait();
  std::shared_future<void> ended;
  {
    const std::lock_guard lock(mutex_);
    // Another thread may have taken the result meanwhile.
    if (result_.valid() && has_ended(result_)) ended = std::exchange(result_, {});
  }
  if (ended.valid()) ended.get();
}

void BackgroundTask::check() {
  const std::shared_future<void> running = current();
  if (running.valid() && has_ended(running)) wait();
}

bool BackgroundTask::is_running() const {
  const std::shared_future<void> running = current();
  return running.valid() && !has_ended(running);
}

}  // namespace cairn::inline v0::orbax
