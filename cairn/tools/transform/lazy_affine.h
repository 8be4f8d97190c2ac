// lazy_affine.h -- scales and shifts the elements of an array.
#pragma once

#include <cairn/tools/transform/lazy_array.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace cairn::inline v0 {

// x * scale + offset, or its inverse (x - offset) / scale. Both in float64, rounded once.
struct AffineFunction {
  double scale = 1, offset = 0;
  bool inverse = false;
};

// Elements that an affine function has computed so far, and those of them from which its inverse
// would not make the same element again.
struct AffineCounts {
  std::atomic<std::uint64_t> computed = 0, inexact = 0;
};

// The elements that one rule scales.
struct ScaledLeaves {
  std::string where;  // the rule: "/rules/3"
  std::string name;   // the name of its leaves on the first side
  std::shared_ptr<AffineCounts> counts;
};

// Applies the function to every element, and counts what it has done. Throws invalid_argument
// unless the elements are real floating-point numbers, and for a scale that is zero or not finite.
LazyPtr lazy_affine(LazyPtr array, const AffineFunction& function,
                    std::shared_ptr<AffineCounts> counts);

}  // namespace cairn::inline v0
