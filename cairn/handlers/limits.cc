// limits.cc -- the byte limiter, and the regulator of the device-to-host limit.
#include <cairn/error.h>
#include <cairn/limits.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace cairn::inline v0 {

ByteLimiter::ByteLimiter(std::optional<std::int64_t> limit_bytes)
    : limit_(limit_bytes), free_(limit_bytes.value_or(0)) {
  if (limit_ && *limit_ <= 0)
    throw Error(Code::kInvalidArgument,
                "a limit of " + std::to_string(*limit_) + " bytes: it must be positive");
}

void ByteLimiter::check(std::int64_t bytes) const {
  if (limit_ && bytes >= *limit_)
    throw Error(Code::kInvalidArgument,
                "needs " + std::to_string(bytes) +
                    " bytes at once, which must be less than the limit of " +
                    std::to_string(*limit_) +
                    " bytes in flight; raise the limit or save in smaller pieces");
}

ByteLimiter::Reservation ByteLimiter::reserve(std::int64_t bytes) {
  check(bytes);
  if (!limit_) return {nullptr, 0};
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return free_ > bytes; });
  free_ -= bytes;
  return {this, bytes};
}

ByteLimiter::Reservation::~Reservation() {
  if (limiter_ == nullptr) return;
  {
    const std::lock_guard lock(limiter_->mutex_);
    limiter_->free_ += bytes_;
  }
  limiter_->freed_.notify_all();
}

namespace {

constexpr double kTargetShare = 0.8;  // the desired share of the memory
constexpr double kProportional = 0.4;
constexpr double kIntegral = 0.05;
constexpr double kDerivative = 0.1;
constexpr double kMostIntegral = 50;  // GiB

bool is_usable(double reading) { return std::isfinite(reading) && reading >= 0; }

}  // namespace

MemoryRegulator::MemoryRegulator(double max_gib) : max_gib_(max_gib) {
  if (!(kMinGib < kTargetShare * max_gib))
    throw Error(Code::kInvalidArgument,
                "a largest device-to-host limit of " + std::to_string(max_gib) +
                    " GiB: 'auto' starts at 10 GiB, which must be less than 0.8 of it");
}

double MemoryRegulator::next_limit(double current_gib, const MemoryReading& reading,
                                   double surge_gib) {
  if (!is_usable(current_gib) || !is_usable(reading.total) || !is_usable(reading.peak) ||
      !is_usable(surge_gib))
    return current_gib;
  const double error = kTargetShare * reading.total - reading.peak;
  double change =
      kProportional * error + kIntegral * integral_ + kDerivative * (error - previous_error_);
  if (surge_gib == 0) {
    integral_ = std::clamp(integral_ + error, -kMostIntegral, kMostIntegral);
    previous_error_ = error;
  }
  if (reading.peak > reading.total) change = std::min(reading.total - reading.peak, change);
  if (surge_gib > 0) change = std::min(0.0, change);
  const double base = current_gib + previous_surge_ + change;
  const double limit = std::clamp(base - surge_gib, kMinGib, max_gib_);
  previous_surge_ = std::clamp(base, kMinGib, max_gib_) - limit;
  return limit;
}

}  // namespace cairn::inline v0
