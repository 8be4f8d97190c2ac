// best_steps.cc -- sorts the steps that have a metric.
#include <cairn/orbax/manager/best_steps.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace cairn::inline v0::orbax {

std::vector<std::size_t> by_quality(
    std::span<const StepInfo> steps,
    const std::function<std::optional<double>(const StepInfo&)>& quality, BestMode mode) {
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (const auto value = quality(steps[i]))
      ranked.emplace_back(mode == BestMode::kMax ? *value : -*value, i);
  std::ranges::stable_sort(ranked, [](const auto& a, const auto& b) {
    if (std::isnan(a.first) || std::isnan(b.first))
      return std::isnan(a.first) && !std::isnan(b.first);
    return a.first < b.first;
  });
  std::vector<std::size_t> positions;
  positions.reserve(ranked.size());
  for (const auto& [value, position] : ranked) positions.push_back(position);
  return positions;
}

std::vector<std::size_t> by_quality(std::span<const StepInfo> steps, const MetricFn& metric,
                                    BestMode mode) {
  return by_quality(
      steps,
      [&](const StepInfo& step) -> std::optional<double> {
        if (!step.metrics) return std::nullopt;
        return metric(*step.metrics);
      },
      mode);
}

}  // namespace cairn::inline v0::orbax
