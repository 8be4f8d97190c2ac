// limits.h -- limits on the number of bytes in flight.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
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
  [[nodiscard]] std::optional<std::int64_t> limit() const { return limit_; }

 private:
  std::optional<std::int64_t> limit_;
  std::int64_t free_ = 0;
  std::mutex mutex_;
  std::condition_variable freed_;
};

// Memory of the host of a device, in GiB.
struct MemoryReading {
  double total = 0;  // memory of the host
  double peak = 0;   // peak use
};

// Adapts the device-to-host limit from save to save (AutoLimit). The controller aims for a peak of
// 80 % of the memory. Not safe for concurrent use.
class MemoryRegulator {
 public:
  // `max_gib`: upper bound of the limit in GiB. Throws invalid_argument if the minimum of 10 GiB is
  // not less than 0.8 * max_gib.
  explicit MemoryRegulator(double max_gib);

  [[nodiscard]] double min_gib() const { return kMinGib; }
  // The limit in GiB after `current_gib`. `surge_gib` is the memory that the next save is expected
  // to need for other purposes. Readings that are negative or not finite keep the limit.
  double next_limit(double current_gib, const MemoryReading& reading, double surge_gib = 0);

 private:
  static constexpr double kMinGib = 10;
  double max_gib_;
  double integral_ = 0;
  double previous_error_ = 0;
  double previous_surge_ = 0;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
