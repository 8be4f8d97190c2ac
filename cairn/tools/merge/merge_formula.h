// merge_formula.h -- the arithmetic of a merge, in float64:
//
//   mean       (x[0] + x[1] + ...) / n
//   weights    w[0] * x[0] + w[1] * x[1] + ...
//   ema        e = x[0], then e = decay * e + (1 - decay) * x[i]
//   base       base + scale * a[0] * (x[0] - base) + scale * a[1] * (x[1] - base) + ...
#pragma once

#include <cairn/convert.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::inline v0 {

// The formula that the options select, applied to runs of elements.
class MergeFormula {
 public:
  // Throws invalid_argument for options that make no sense together or for `sources` checkpoints.
  MergeFormula(const MergeOptions& options, std::size_t sources);

  // Adds the elements of checkpoint i to the sums; checkpoints come in order. `base`: its elements,
  // if the formula has one. The first call sets the sums.
  void add(std::size_t i, const double* x, const double* base, double* sums, std::size_t n) const;
  // Follows the last checkpoint.
  void finish(double* sums, std::size_t n) const;
  // The formula as text, which identifies it.
  [[nodiscard]] std::string text() const;

 private:
  enum class Method : std::uint8_t { kMean, kWeights, kMovingAverage, kBase };

  Method method_ = Method::kMean;
  std::vector<double> factors_;  // of each checkpoint, for kWeights and kBase
  double decay_ = 0;
  double count_ = 0;
};

}  // namespace cairn::inline v0
