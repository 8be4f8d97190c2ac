// byte_limiter.h -- limits the number of bytes in flight, by the rule of Orbax. ParamInfo has the
// limiter of a save or restore, so that a type handler of the caller's can keep the limit, too.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Grants reservations of bytes up to a limit, by the rule of Orbax's byte limiter: a request must
// be strictly smaller than the free bytes. A request of the limit or more can therefore never be
// granted and is refused. Safe to use from many threads.
class ByteLimiter {
 public:
  // None: no limit; every request is granted at once. Throws invalid_argument for a limit that is
  // not positive.
  explicit ByteLimiter(std::optional<std::int64_t> limit_bytes);

  // Holds bytes until its destruction. The limiter must outlive it.
  class Reservation {
   public:
    Reservation(ByteLimiter* limiter, std::int64_t bytes) : limiter_(limiter), bytes_(bytes) {}
    Reservation(Reservation&& other) noexcept
        : limiter_(std::exchange(other.limiter_, nullptr)), bytes_(other.bytes_) {}
    Reservation& operator=(Reservation&&) = delete;
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation();

   private:
    ByteLimiter* limiter_;
    std::int64_t bytes_;
  };

  // Throws invalid_argument if a request of `bytes` can never be granted.
  void check(std::int64_t bytes) const;
  // Blocks until the bytes are free. Throws as check().
  [[nodiscard]] Reservation reserve(std::int64_t bytes);
  // The limit; none: every request is granted.
  [[nodiscard]] std::optional<std::int64_t> limit() const { return limit_; }

 private:
  std::optional<std::int64_t> limit_;
  std::int64_t free_ = 0;
  std::mutex mutex_;
  std::condition_variable freed_;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
