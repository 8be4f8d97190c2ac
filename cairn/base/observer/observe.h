// observe.h -- reports events to an observer.
#pragma once

#include <cairn/error.h>
#include <cairn/observer.h>

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace cairn::inline v0 {

// Calls the observer, if there is one. Drops what it throws: a save must not fail for a report.
void observe(const Observer& observer, EventLevel level, std::string_view name,
             std::initializer_list<EventAttribute> attributes,
             std::optional<std::chrono::nanoseconds> duration = {}) noexcept;

// Calls `work`. If it throws an Error, reports an event of level error before passing it on.
template <class Work>
decltype(auto) reporting_failure(const Observer& observer, std::string_view name,
                                 std::string_view path, Work&& work) {
  try {
    return work();
  } catch (const Error& e) {
    observe(observer, EventLevel::kError, name,
            {{"path", path}, {"code", code_name(e.code())}, {"message", e.message()}});
    throw;
  }
}

// Measures the time since its construction.
class Stopwatch {
 public:
  [[nodiscard]] std::chrono::nanoseconds elapsed() const {
    return std::chrono::steady_clock::now() - start_;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace cairn::inline v0
