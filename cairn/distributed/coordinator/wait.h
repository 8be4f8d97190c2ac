// wait.h -- waiting for what only looking can tell: often at first, then less so.
#pragma once

#include <cairn/distributed/coordinator/collective.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace cairn::distributed {

class Backoff {
 public:
  // Sleeps a little longer than the last time, but not past the deadline.
  void wait(Clock::time_point deadline) {
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + pause_));
    pause_ = std::min<std::chrono::microseconds>(pause_ * 3 / 2, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kLongest = std::chrono::milliseconds(50);
  std::chrono::microseconds pause_{200};
};

}  // namespace cairn::distributed
