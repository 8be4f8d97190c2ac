// value_sums.h -- the sums from which the measures of two arrays follow: RMS error, relative error
// and cosine.
#pragma once

#include <cairn/diff.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace cairn::inline v0 {

// A sum of float64 numbers with about 100 bits. Blocks are added in any order, on any number of
// threads and processes; the rounded sum is the same.
struct LongSum {
  double high = 0, low = 0;  // the sum is high + low

  void add(double x) {
    const double sum = high + x;
    const double shifted = sum - high;
    low += (high - (sum - shifted)) + (x - shifted);  // what rounding lost
    high = sum;
  }
  void add(const LongSum& other) {
    add(other.high);
    low += other.low;
  }
  // Infinite or NaN if the sum overflowed.
  [[nodiscard]] double value() const { return high + low; }
};

// Sums over pairs of finite numbers.
struct ValueSums {
  std::uint64_t pairs = 0;
  double largest_b = 0;          // of |b|
  double largest_error = 0;      // of |a - b|
  LongSum errors;                // of |a - b|^2
  LongSum squares_a, squares_b;  // of |a|^2 and |b|^2
  LongSum products;              // of a * conj(b), the real part

  void add(const ValueSums& other) {
    pairs += other.pairs;
    largest_b = std::max(largest_b, other.largest_b);
    largest_error = std::max(largest_error, other.largest_error);
    errors.add(other.errors);
    squares_a.add(other.squares_a);
    squares_b.add(other.squares_b);
    products.add(other.products);
  }
  // Fills in the measures.
  void measure(ValueDiff& values) const {
    if (pairs == 0) return;
    const auto set = [](std::optional<double>& to, double value) {
      if (std::isfinite(value)) to = value;
    };
    set(values.rms_error, std::sqrt(errors.value() / static_cast<double>(pairs)));
    set(values.relative_error, largest_error / largest_b);
    // One root keeps the cosine of equal arrays exactly 1, two do not overflow.
    double norms = std::sqrt(squares_a.value() * squares_b.value());
    if (!std::isnormal(norms)) norms = std::sqrt(squares_a.value()) * std::sqrt(squares_b.value());
    if (std::isfinite(norms)) set(values.cosine, std::clamp(products.value() / norms, -1.0, 1.0));
  }
};

}  // namespace cairn::inline v0
