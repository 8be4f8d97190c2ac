// thread_clock.h -- a retry policy whose waits take no time. Each thread has a clock of its own,
// which its own waits alone move: parallel waits do not add up.
#pragma once

#include <cairn/kvstore/object/request/sender.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace cairn::object::testing {

inline RetryPolicy policy_without_waits() {
  struct Clocks {
    std::mutex mutex;
    std::map<std::thread::id, std::chrono::steady_clock::time_point> times;
  };
  const auto clocks = std::make_shared<Clocks>();
  return {.draw = [] { return 0.5; },
          .now =
              [clocks] {
                const std::scoped_lock lock(clocks->mutex);
                return clocks->times[std::this_thread::get_id()];
              },
          .sleep =
              [clocks](std::chrono::milliseconds time) {
                const std::scoped_lock lock(clocks->mutex);
                clocks->times[std::this_thread::get_id()] += time;
              }};
}

}  // namespace cairn::object::testing
