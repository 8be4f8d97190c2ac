// best_steps.h -- orders steps by a metric.
#pragma once

#include <cairn/step_policies.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace cairn::inline v0::orbax {

// The positions of the steps that have a quality, the best step last. Of equally good steps the
// later one is the better one. A quality of NaN, as of a run that has diverged, is the worst.
std::vector<std::size_t> by_quality(
    std::span<const StepInfo> steps,
    const std::function<std::optional<double>(const StepInfo&)>& quality, BestMode mode);
// The same for the quality that the function gives to the metrics of a step.
std::vector<std::size_t> by_quality(std::span<const StepInfo> steps, const MetricFn& metric,
                                    BestMode mode);

}  // namespace cairn::inline v0::orbax
