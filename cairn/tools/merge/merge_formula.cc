#include <cairn/tools/merge/merge_formula.h>

#include <cairn/base/errors.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace cairn::inline v0 {
namespace {

void check_counts(const MergeOptions& options, std::size_t sources) {
  const std::size_t least = options.base ? 1 : 2;
  if (sources < least)
    invalid_argument(fmt::format("{} checkpoint{} to merge: expected at least {}", sources,
                                 sources == 1 ? "" : "s", least));
  if (!options.weights.empty() && options.weights.size() != sources)
    invalid_argument(fmt::format("{} weights for {} checkpoints", options.weights.size(), sources));
}

void check_merge_numbers(const MergeOptions& options) {
  for (const double weight : options.weights)
    if (!std::isfinite(weight))
      invalid_argument(fmt::format("the weight {} is not a finite number", weight));
  if (options.scale && !std::isfinite(*options.scale))
    invalid_argument(fmt::format("the scale {} is not a finite number", *options.scale));
  if (options.ema && !(*options.ema >= 0 && *options.ema <= 1))
    invalid_argument(fmt::format("the decay {} of ema is not between 0 and 1", *options.ema));
}

}  // namespace

MergeFormula::MergeFormula(const MergeOptions& options, std::size_t sources)
    : factors_(options.weights), count_(static_cast<double>(sources)) {
  check_counts(options, sources);
  check_merge_numbers(options);
  if (options.ema && (options.base || !options.weights.empty()))
    invalid_argument("ema has neither weights nor a base: choose one method");
  if (options.scale && !options.base) invalid_argument("scale needs a base");
  if (options.dtype && dtype_kind(*options.dtype) != DTypeKind::kFloat)
    invalid_argument("checkpoints cannot be merged to " + std::string(dtype_name(*options.dtype)) +
                     ": expected a floating-point type");
  if (options.ema) {
    method_ = Method::kMovingAverage;
    decay_ = *options.ema;
  } else if (options.base) {
    method_ = Method::kBase;
    factors_.resize(sources, 1);
    for (double& factor : factors_) factor *= options.scale.value_or(1);
  } else if (!factors_.empty()) {
    method_ = Method::kWeights;
  }
}

void MergeFormula::add(std::size_t i, const double* x, const double* base, double* sums,
                       std::size_t n) const {
  const double factor = factors_.empty() ? 1 : factors_[i];
  const double rest = 1 - decay_;
  if (i == 0 && method_ == Method::kBase) std::copy_n(base, n, sums);
  switch (method_) {
    case Method::kBase:
      for (std::size_t k = 0; k < n; ++k) sums[k] += factor * (x[k] - base[k]);
      return;
    case Method::kWeights:
      if (i == 0)
        for (std::size_t k = 0; k < n; ++k) sums[k] = factor * x[k];
      else
        for (std::size_t k = 0; k < n; ++k) sums[k] += factor * x[k];
      return;
    case Method::kMean:
      if (i == 0)
        std::copy_n(x, n, sums);
      else
        for (std::size_t k = 0; k < n; ++k) sums[k] += x[k];
      return;
    case Method::kMovingAverage:
      if (i == 0)
        std::copy_n(x, n, sums);
      else
        for (std::size_t k = 0; k < n; ++k) sums[k] = decay_ * sums[k] + rest * x[k];
      return;
  }
}

void MergeFormula::finish(double* sums, std::size_t n) const {
  if (method_ != Method::kMean) return;
  for (std::size_t k = 0; k < n; ++k) sums[k] /= count_;
}

std::string MergeFormula::text() const {
  if (method_ == Method::kMean) return fmt::format("mean of {}", count_);
  if (method_ == Method::kMovingAverage) return fmt::format("ema {} of {}", decay_, count_);
  return fmt::format("{} {}", method_ == Method::kBase ? "base" : "weights",
                     fmt::join(factors_, ","));
}

}  // namespace cairn::inline v0
