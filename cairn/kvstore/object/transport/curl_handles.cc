// curl_handles.cc -- a stack of idle handles, and a count of those in use.
#include <cairn/kvstore/object/transport/curl_handles.h>

#include <cairn/base/cancellation.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace cairn::inline v0::object {

CurlHandles::CurlHandles(std::size_t most)
    : api_(curl_api()), process_(::getpid()), most_(std::max<std::size_t>(most, 1)) {
  idle_.reserve(most_);  // so that give_back() needs no memory
}

CurlHandles::~CurlHandles() {
  if (::getpid() != process_) return;
  for (CurlHandle* handle : idle_) api_.easy_cleanup(handle);
}

void CurlHandles::check_process() const {
  if (::getpid() == process_) return;
  throw Error(Code::kFailedPrecondition,
              "the connections to the store belong to process " + std::to_string(process_) +
                  ", from which this one was forked; open the store again");
}

// Nothing wakes a thread whose work is cancelled, so it asks every 100 ms.
void CurlHandles::wait(std::unique_lock<std::mutex>& lock) {
  while (used_ == most_) {
    throw_if_cancelled();
    if (current_cancellation().is_possible())
      returned_.wait_for(lock, std::chrono::milliseconds(100));
    else
      returned_.wait(lock);
  }
}

CurlHandle* CurlHandles::take() {
  check_process();  // before the mutex, which another thread may have held at the fork
  std::unique_lock lock(mutex_);
  wait(lock);
  CurlHandle* handle = nullptr;
  if (idle_.empty()) {
    handle = api_.easy_init();
    if (handle == nullptr) throw Error(Code::kUnavailable, "libcurl has no memory");
  } else {
    handle = idle_.back();
    idle_.pop_back();
  }
  ++used_;
  return handle;
}

// Until the next exchange, libcurl must not write to what the last one had given it.
void CurlHandles::give_back(CurlHandle* handle) {
  api_.easy_reset(handle);  // keeps the connections
  {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(handle);
    --used_;
  }
  returned_.notify_one();
}

}  // namespace cairn::inline v0::object
