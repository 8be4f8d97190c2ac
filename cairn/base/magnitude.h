// magnitude.h -- the absolute value of a complex number.
#pragma once

#include <cmath>

namespace cairn::inline v0 {

// Returns the length of (x, y), within 2 units of the last place. If a part is infinite, the result
// is infinite; otherwise, if a part is NaN, it is NaN. The result has the same bits on every
// processor. That of std::hypot has not: the C library fuses multiplications and additions where
// the processor can.
inline double magnitude(double x, double y) {
  constexpr double kLeast = 0x1p-400;  // between these limits, no square leaves the range of double
  constexpr double kMost = 0x1p400;
  const double larger = std::fabs(x) < std::fabs(y) ? std::fabs(y) : std::fabs(x);
  if (larger > kLeast && larger < kMost) return std::sqrt(x * x + y * y);
  if (std::isinf(x) || std::isinf(y)) return INFINITY;
  if (std::isnan(x) || std::isnan(y) || larger == 0) return std::fabs(x) + std::fabs(y);
  const int exponent = std::ilogb(larger);
  const double a = std::scalbn(x, -exponent);
  const double b = std::scalbn(y, -exponent);
  return std::scalbn(std::sqrt(a * a + b * b), exponent);
}

}  // namespace cairn::inline v0
