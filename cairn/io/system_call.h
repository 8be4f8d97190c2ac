// system_call.h -- the kernel's calls that a signal may interrupt.
#pragma once

#include <cerrno>

namespace cairn {

// Calls f again as long as a signal interrupts it. Not for close: the descriptor is gone even then.
template <class F>
auto uninterrupted(F f) {
  while (true) {
    const auto result = f();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace cairn
