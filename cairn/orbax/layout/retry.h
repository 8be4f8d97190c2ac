// retry.h -- repeats reads of files that another process replaces meanwhile.
#pragma once

#include <cairn/error.h>

#include <chrono>
#include <thread>

namespace cairn::inline v0 {

// Waits before an attempt is repeated: 1 ms after the first one (`failed` is 0), then twice as long
// each time.
inline void wait_before_retry(int failed) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1) * (1 << failed));
}

// Returns f(). Repeats it if it throws Error(kUnavailable), at most `attempts` times in all.
template <class F>
auto retry_if_unavailable(int attempts, F f) {
  for (int failed = 0;; ++failed) {
    try {
      return f();
    } catch (const Error& e) {
      if (e.code() != Code::kUnavailable || failed + 1 >= attempts) throw;
    }
    wait_before_retry(failed);
  }
}

}  // namespace cairn::inline v0
