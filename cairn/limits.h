// limits.h -- how many bytes may be on their way at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace cairn {

// Grants bytes up to a limit, as Orbax's byte limiter does: a request must be strictly less than
// what is free, so one of the limit or more can never be granted and is refused. Safe to use from
// many threads.
class ByteLimiter {
 public:
  // Throws invalid_argument for a limit that is not positive. None: everything is granted at once.
  explicit ByteLimiter(std::optional<std::int64_t> limit_bytes);

  // Bytes that are held until this is destroyed.
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

  // Throws invalid_argument if `bytes` can never be granted.
  void check(std::int64_t bytes) const;
  // Blocks until the bytes are free. Throws as check does.
  [[nodiscard]] Reservation reserve(std::int64_t bytes);
  [[nodiscard]] std::optional<std::int64_t> limit() const { return limit_; }

 private:
  std::optional<std::int64_t> limit_;
  std::int64_t free_ = 0;
  std::mutex mutex_;
  std::condition_variable freed_;
};

// Readings of the memory of the device's host, in GiB.
struct MemoryReading {
  double total = 0;
  double peak = 0;
};

// Adjusts the device-to-host limit from save to save ("auto"): a controller that aims for a peak of
// 80 % of the memory.
class MemoryRegulator {
 public:
  // Throws invalid_argument if the minimum of 10 GiB is not less than 0.8 of `max_gib`.
  explicit MemoryRegulator(double max_gib);

  [[nodiscard]] double min_gib() const { return kMinGib; }
  // The next limit after `current_gib`, GiB. `surge_gib`: memory that the next save is expected to
  // need for other things. Readings that are not finite, or negative, keep the limit.
  double next_limit(double current_gib, const MemoryReading& reading, double surge_gib = 0);

 private:
  static constexpr double kMinGib = 10;
  double max_gib_;
  double integral_ = 0;
  double previous_error_ = 0;
  double previous_surge_ = 0;
};

}  // namespace cairn
