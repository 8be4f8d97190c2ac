// policies.cc -- the policies of step_policies.h.
#include <cairn/step_policies.h>

#include <cairn/base/errors.h>
#include <cairn/orbax/manager/best_steps.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

using Kept = std::vector<bool>;
using Steps = std::span<const StepInfo>;

// Drops all but the last `most` of the steps that are kept.
void keep_last(std::optional<std::size_t> most, Kept& kept) {
  if (!most) return;
  std::size_t left = *most;
  for (std::size_t i = kept.size(); i-- > 0;)
    if (kept[i] && left-- == 0) {
      std::fill(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(i) + 1, false);
      return;
    }
}

void check_interval(std::int64_t interval) {
  if (interval <= 0)
    invalid_argument("the interval of " + std::to_string(interval) +
                     " steps must be a positive number");
}

// Keeps the first step, and each whose distance from the one kept before it is large enough.
template <class IsFarEnough>
Kept spaced(Steps steps, IsFarEnough is_far_enough) {
  Kept kept(steps.size(), false);
  std::size_t last = 0;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (i == 0 || is_far_enough(steps[last], steps[i])) {
      kept[i] = true;
      last = i;
    }
  return kept;
}

// The multiple of an interval that is closest to a step.
struct Multiple {
  std::int64_t number;    // divided by the interval
  std::int64_t distance;  // from the step
};

// Halves go to the even multiple, as Python rounds them.
Multiple closest_multiple(std::int64_t step, std::int64_t interval) {
  std::int64_t below = step / interval;
  std::int64_t rest = step % interval;
  if (rest < 0) {
    --below;
    rest += interval;
  }
  const std::int64_t above = interval - rest;
  const bool is_below = rest == above ? below % 2 == 0 : rest < above;
  return is_below ? Multiple{below, rest} : Multiple{below + 1, above};
}

Kept select_closest(Steps steps, std::int64_t interval) {
  struct Best {
    std::size_t index;
    std::int64_t distance;
  };
  std::map<std::int64_t, Best> closest;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto [multiple, distance] = closest_multiple(steps[i].step, interval);
    const auto [place, is_new] = closest.try_emplace(multiple, Best{i, distance});
    if (!is_new && distance <= place->second.distance) place->second = {i, distance};
  }
  Kept kept(steps.size(), false);
  for (const auto& [multiple, best] : closest) kept[best.index] = true;
  if (!kept.empty()) kept.back() = true;
  return kept;
}

Kept select_best(Steps steps, std::size_t count, const MetricFn& metric, BestMode mode,
                 bool keep_without_metrics) {
  if (steps.size() <= count) return Kept(steps.size(), true);
  Kept kept(steps.size(), false);
  if (count == 0) return kept;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (!steps[i].metrics) kept[i] = keep_without_metrics;
  const std::vector<std::size_t> ranked = orbax::by_quality(steps, metric, mode);
  const std::size_t first = ranked.size() - std::min(count, ranked.size());
  for (std::size_t i = first; i < ranked.size(); ++i) kept[ranked[i]] = true;
  return kept;
}

}  // namespace

MetricFn metric(std::string name) {
  return [name = std::move(name)](const Metrics& metrics) {
    const auto found = metrics.find(name);
    if (found == metrics.end())
      throw Error(Code::kNotFound, "the step has metrics, but none is named '" + name + "'");
    return found->second;
  };
}

namespace save_policy {

SavePolicy fixed_interval(std::int64_t interval) {
  check_interval(interval);
  return {[interval](const SaveQuestion& question) { return question.step % interval == 0; },
          StepDetails::kOfNone};
}

SavePolicy specific_steps(std::set<std::int64_t> steps) {
  return {[steps = std::move(steps)](const SaveQuestion& question) {
            return steps.contains(question.step);
          },
          StepDetails::kOfNone};
}

SavePolicy continuous(std::chrono::nanoseconds minimum_interval) {
  const bool any = minimum_interval <= std::chrono::nanoseconds(0);
  return {[minimum_interval, any](const SaveQuestion& question) {
            if (question.is_saving) return false;
            if (any || question.saved.empty()) return true;
            const auto passed = std::chrono::system_clock::now() - question.saved.back().time;
            // A time to come is that of another clock, or of this one before it was set back.
            return passed >= minimum_interval || passed < std::chrono::nanoseconds(0);
          },
          any ? StepDetails::kOfNone : StepDetails::kOfLast};
}

SavePolicy preemption() {
  return {[](const SaveQuestion& question) { return question.is_preempted; }, StepDetails::kOfNone};
}

SavePolicy initial() {
  return {[](const SaveQuestion& question) { return question.saved.empty(); },
          StepDetails::kOfNone};
}

SavePolicy any_of(std::vector<SavePolicy> policies) {
  StepDetails details = StepDetails::kOfNone;
  for (const SavePolicy& policy : policies) {
    if (!policy.decide) invalid_argument("one of the save policies is null");
    details = std::max(details, policy.needs_details);
  }
  return {[policies = std::move(policies)](const SaveQuestion& question) {
            return std::ranges::any_of(
                policies, [&](const SavePolicy& policy) { return policy.decide(question); });
          },
          details};
}

}  // namespace save_policy

namespace keep_policy {

KeepPolicy all() {
  return {[](Steps steps) { return Kept(steps.size(), true); }, false};
}

KeepPolicy latest(std::size_t count) {
  return {[count](Steps steps) {
            Kept kept(steps.size(), true);
            keep_last(count, kept);
            return kept;
          },
          false};
}

KeepPolicy every_n_steps(std::int64_t interval, bool exact,
                         std::optional<std::size_t> max_to_keep) {
  check_interval(interval);
  return {[interval, exact, max_to_keep](Steps steps) {
            Kept kept;
            if (exact)
              for (const StepInfo& info : steps) kept.push_back(info.step % interval == 0);
            else
              kept = spaced(steps, [&](const StepInfo& last, const StepInfo& next) {
                return next.step - last.step >= interval;
              });
            keep_last(max_to_keep, kept);
            return kept;
          },
          false};
}

KeepPolicy every_n_steps_closest(std::int64_t interval, std::optional<std::size_t> max_to_keep) {
  check_interval(interval);
  return {[interval, max_to_keep](Steps steps) {
            Kept kept = select_closest(steps, interval);
            keep_last(max_to_keep, kept);
            return kept;
          },
          false};
}

KeepPolicy every(std::chrono::nanoseconds interval) {
  return {[interval](Steps steps) {
    return spaced(steps, [&](const StepInfo& last, const StepInfo& next) {
      return next.time - last.time >= interval;
    });
  }};
}

KeepPolicy best(std::size_t count, MetricFn metric, BestMode mode, bool keep_without_metrics) {
  if (!metric) invalid_argument("the policy of the best steps has no metric");
  return {[count, metric = std::move(metric), mode, keep_without_metrics](Steps steps) {
    return select_best(steps, count, metric, mode, keep_without_metrics);
  }};
}

KeepPolicy custom_steps(std::set<std::int64_t> steps) {
  return {[wanted = std::move(steps)](Steps saved) {
            Kept kept;
            for (const StepInfo& info : saved) kept.push_back(wanted.contains(info.step));
            return kept;
          },
          false};
}

KeepPolicy latest_duration(std::chrono::nanoseconds duration) {
  return {[duration](Steps steps) {
    const auto now = std::chrono::system_clock::now();
    Kept kept;
    for (const StepInfo& info : steps)
      kept.push_back((!kept.empty() && kept.back()) || now - info.time <= duration);
    return kept;
  }};
}

KeepPolicy any_of(std::vector<KeepPolicy> policies) {
  for (const KeepPolicy& policy : policies)
    if (!policy.select) invalid_argument("one of the keep policies has no function");
  const bool details =
      std::ranges::any_of(policies, [](const KeepPolicy& policy) { return policy.needs_details; });
  return {[policies = std::move(policies)](Steps steps) {
            Kept kept(steps.size(), false);
            for (const KeepPolicy& policy : policies) {
              const Kept more = policy.select(steps);
              for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = kept[i] || more.at(i);
            }
            return kept;
          },
          details};
}

}  // namespace keep_policy
}  // namespace cairn::inline v0
