// wait.h -- polling with a growing pause: frequent checks at first, then fewer.
#pragma once

#include <cairn/distributed/coordinator/collective.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace cairn::inline v0::distributed {

// A pause that grows by half with every wait, from 200 us to 50 ms.
class Backoff {
 public:
  // Sleeps for the current pause, but not past the deadline, and lengthens the pause.
  void wait(Clock::time_point deadline) {
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + pause_));
    pause_ = std::min<std::chrono::microseconds>(pause_ * 3 / 2, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kLongest = std::chrono::milliseconds(50);
  std::chrono::microseconds pause_{200};
};

}  // namespace cairn::inline v0::distributed
