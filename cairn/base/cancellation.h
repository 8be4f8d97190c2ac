// cancellation.h -- the request to stop the work of a thread, and its time limit. The work asks for
// both between pieces of some megabytes. They are not arguments, because the places that ask are
// far below the caller.
#pragma once

#include <cairn/error.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

namespace cairn::inline v0 {

// What ends work before its time.
class Cancellation {
 public:
  using Milliseconds = std::chrono::milliseconds;

  Cancellation() = default;  // nothing does
  // A token without a source: nobody asks. The time limit counts from now; none: no limit.
  // Throws invalid_argument for a limit that is not positive.
  explicit Cancellation(std::stop_token request, std::optional<Milliseconds> limit = {})
      : request_(std::move(request)), limit_(limit) {
    if (!limit_) return;
    if (*limit_ <= Milliseconds::zero())
      throw Error(Code::kInvalidArgument, "the time limit of a save is " +
                                              std::to_string(limit_->count()) +
                                              " ms; it must be positive");
    begin_ = std::chrono::steady_clock::now();
  }

  // The same, and `request` may end the work, too.
  [[nodiscard]] Cancellation or_by(std::stop_token request) const {
    Cancellation both = *this;
    both.other_request_ = std::move(request);
    return both;
  }

  [[nodiscard]] bool is_possible() const {
    return request_.stop_possible() || other_request_.stop_possible() || limit_;
  }
  // Throws cancelled after a request, deadline_exceeded after the time limit.
  void check() const {
    if (request_.stop_requested() || other_request_.stop_requested())
      throw Error(Code::kCancelled, "the caller asked to stop");
    // Nanoseconds would not hold the largest limit.
    if (limit_ &&
        std::chrono::floor<Milliseconds>(std::chrono::steady_clock::now() - begin_) >= *limit_)
      throw Error(Code::kDeadlineExceeded,
                  "the time limit of " + seconds_text(*limit_) + " s is over");
  }

 private:
  // "1200", "0.25"
  static std::string seconds_text(Milliseconds time) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    std::string text = std::to_string(seconds.count());
    if (time == seconds) return text;
    const std::string digits = std::to_string((time - seconds).count());
    text += "." + std::string(3 - digits.size(), '0') + digits;
    return text.substr(0, text.find_last_not_of('0') + 1);
  }

  std::stop_token request_;
  std::stop_token other_request_;
  std::optional<Milliseconds> limit_;
  std::chrono::steady_clock::time_point begin_;
};

// That of the innermost CancellationScope of this thread.
inline Cancellation& current_cancellation() {
  thread_local Cancellation current;
  return current;
}

// For the lifetime of the object, `cancellation` may stop the work of this thread, and that of the
// executor's threads on its behalf.
class CancellationScope {
 public:
  explicit CancellationScope(Cancellation cancellation)
      : outer_(std::exchange(current_cancellation(), std::move(cancellation))) {}
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;
  ~CancellationScope() { current_cancellation() = std::move(outer_); }

 private:
  Cancellation outer_;
};

// Throws Error(kCancelled) if somebody has asked to stop this thread's work, and
// Error(kDeadlineExceeded) if its time is over.
inline void throw_if_cancelled() { current_cancellation().check(); }

// Runs a save under `cancellation`. The error of one that takes too long names its `path`.
template <class Save>
decltype(auto) with_cancellation(const Cancellation& cancellation, const std::string& path,
                                 Save&& save) {
  const CancellationScope scope(cancellation);
  try {
    return save();
  } catch (Error& e) {
    if (e.code() == Code::kDeadlineExceeded) e.add_context(path + ": the save took too long");
    throw;
  }
}

// Runs f, which `request` may end, too. After a request it throws cancelled, whatever f has made of
// that: work that looks at many things may take it for a fault of one of them.
template <class F>
auto stoppable_by(const std::stop_token& request, F f) {
  if (!request.stop_possible()) return f();
  const CancellationScope scope(current_cancellation().or_by(request));
  try {
    auto result = f();
    throw_if_cancelled();
    return result;
  } catch (const Error&) {
    throw_if_cancelled();
    throw;
  }
}

// The most bytes that the thread may write before it asks again: `wanted`, or 4 MiB if its work can
// be stopped. A slow disk takes less than a tenth of a second for that much.
inline std::size_t bytes_until_asked(std::size_t wanted) {
  constexpr std::size_t kAskedEach = std::size_t{4} << 20U;
  return current_cancellation().is_possible() ? std::min(wanted, kAskedEach) : wanted;
}

}  // namespace cairn::inline v0
