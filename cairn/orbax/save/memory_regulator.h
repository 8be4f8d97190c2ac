// memory_regulator.h -- adapts the limit on bytes copied from devices to the memory of the host.
#pragma once

#include <cairn/orbax/pytree_checkpoint_handler.h>

namespace cairn::inline v0 {

// Adapts the device-to-host limit from save to save (AutoLimit). The controller aims for a peak of
// 80 % of the memory. Not safe for concurrent use.
class MemoryRegulator {
 public:
  // `max_gib`: upper bound of the limit in GiB. Throws invalid_argument if the minimum of 10 GiB is
  // not less than 0.8 * max_gib.
  explicit MemoryRegulator(double max_gib);

  // Whether readings can be used: numbers that are finite (the surge may be infinite) and not
  // negative.
  [[nodiscard]] static bool can_use(const MemoryReading& reading, double surge_gib);
  [[nodiscard]] double min_gib() const { return kMinGib; }
  // The limit in GiB after `current_gib`. `surge_gib` is the memory that the next save is expected
  // to need for other purposes; an infinite one lowers the limit to the minimum. Readings that
  // cannot be used keep the limit.
  double next_limit(double current_gib, const MemoryReading& reading, double surge_gib = 0);

 private:
  static constexpr double kMinGib = 10;
  double max_gib_;
  double integral_ = 0;
  double previous_error_ = 0;
  double previous_surge_ = 0;
};

}  // namespace cairn::inline v0
