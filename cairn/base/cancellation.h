// cancellation.h -- the request to stop the work of a thread. The work asks for it between pieces
// of some megabytes. It is not an argument, because the places that ask are far below the caller.
#pragma once

#include <cairn/error.h>

#include <algorithm>
#include <cstddef>
#include <stop_token>
#include <utility>

namespace cairn::inline v0 {

// The token of the innermost CancellationScope of this thread.
inline std::stop_token& current_cancellation() {
  thread_local std::stop_token token;
  return token;
}

// For the lifetime of the object, a request through `token` stops the work of this thread, and that
// of the executor's threads on its behalf. A token without a source: nothing stops the work.
class CancellationScope {
 public:
  explicit CancellationScope(std::stop_token token)
      : outer_(std::exchange(current_cancellation(), std::move(token))) {}
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;
  ~CancellationScope() { current_cancellation() = std::move(outer_); }

 private:
  std::stop_token outer_;
};

// Throws Error(kCancelled) if somebody has asked to stop this thread's work.
inline void throw_if_cancelled() {
  if (current_cancellation().stop_requested())
    throw Error(Code::kCancelled, "the caller asked to stop");
}

// The most bytes that the thread may write before it asks again: `wanted`, or 4 MiB if its work can
// be stopped. A slow disk takes less than a tenth of a second for that much.
inline std::size_t bytes_until_asked(std::size_t wanted) {
  constexpr std::size_t kPiece = std::size_t{4} << 20U;
  return current_cancellation().stop_possible() ? std::min(wanted, kPiece) : wanted;
}

}  // namespace cairn::inline v0
