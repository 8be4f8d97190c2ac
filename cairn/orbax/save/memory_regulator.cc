// memory_regulator.cc -- the controller of Orbax's automatic device-to-host limit.
#include <cairn/orbax/save/memory_regulator.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace cairn::inline v0 {
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
                "the maximum device-to-host limit is " + std::to_string(max_gib) +
                    " GiB; 0.8 of it must exceed the 10 GiB at which 'auto' starts");
}

bool MemoryRegulator::can_use(const MemoryReading& reading, double surge_gib) {
  return is_usable(reading.total) && is_usable(reading.peak) && surge_gib >= 0;
}

double MemoryRegulator::next_limit(double current_gib, const MemoryReading& reading,
                                   double surge_gib) {
  if (!can_use(reading, surge_gib)) return current_gib;
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
