// step_policies.h -- which steps of a training run a CheckpointManager saves, and which it keeps.
// The policies decide as those of the same names in Orbax's save_decision_policy and
// preservation_policy.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Named numbers that say how good a step is: {{"loss", 0.25}}. Orbax also stores trees of numbers.
// In Cairn, the member "loss" of "eval" is "eval.loss", and the first number of the list "losses"
// is "losses.0".
using Metrics = std::map<std::string, double>;

// A step of a training run that is saved.
struct StepInfo {
  std::int64_t step = 0;
  std::chrono::system_clock::time_point time = {};  // of its commit
  std::optional<Metrics> metrics = {};              // none: none are stored
};

// Returns the quality of a step.
using MetricFn = std::function<double(const Metrics&)>;
// The metric of this name. The function throws not_found if a step has metrics, but not this one.
MetricFn metric(std::string name);
// Whether the best metric is the largest one or the smallest one.
enum class BestMode : std::uint8_t { kMax, kMin };

// ---- which steps are saved ----

// The facts on which a SavePolicy decides.
struct SaveQuestion {
  std::int64_t step = 0;
  std::span<const StepInfo> saved = {};  // the steps that are there, in the order of their saves
  bool is_saving = false;                // the save of an earlier step is in progress
  bool is_preempted = false;             // the process has been asked to end
};
// The saved steps whose times and metrics a policy needs.
enum class StepDetails : std::uint8_t { kOfNone, kOfLast, kOfAll };

// Decides whether to save a step. A function of your own is one, too.
struct SavePolicy {
  using Decide = std::function<bool(const SaveQuestion&)>;
  SavePolicy() = default;  // none
  template <std::convertible_to<Decide> F>
  SavePolicy(F function, StepDetails looks_at = StepDetails::kOfAll)
      : decide(std::move(function)), needs_details(looks_at) {}

  // Returns whether to save the step.
  Decide decide;
  // The manager reads the times and metrics of these steps first; those of others may be missing.
  // Reading them takes two files for each step that was there when the manager was made.
  StepDetails needs_details = StepDetails::kOfAll;
};

namespace save_policy {
// Every multiple of `interval`. Throws invalid_argument if it is not positive.
SavePolicy fixed_interval(std::int64_t interval);
// These steps.
SavePolicy specific_steps(std::set<std::int64_t> steps);
// Whenever no save is in progress and the last save is at least this long ago, or in the future:
// the clock has been set back.
SavePolicy continuous(std::chrono::nanoseconds minimum_interval = {});
// When the process has been asked to end.
SavePolicy preemption();
// The first step of all.
SavePolicy initial();
// When any of the policies says so.
SavePolicy any_of(std::vector<SavePolicy> policies);
}  // namespace save_policy

// ---- which steps are kept ----

// Selects steps to keep. The others are removed once a later step is durable.
struct KeepPolicy {
  using Select = std::function<std::vector<bool>(std::span<const StepInfo>)>;
  KeepPolicy() = default;  // none
  KeepPolicy(Select decide, bool looks_at_details = true)
      : select(std::move(decide)), needs_details(looks_at_details) {}

  // Receives the steps in the order of their saves, the new one last. Returns one decision for
  // each.
  Select select;
  // Whether it needs times and metrics. Reading them takes two files for each older step.
  bool needs_details = true;
};

namespace keep_policy {
KeepPolicy all();
// The last `count` steps.
KeepPolicy latest(std::size_t count);
// Multiples of `interval`. exact = false: the first step, and each step that is at least `interval`
// after the one kept before it. max_to_keep: only the last of these. Throws invalid_argument if the
// interval is not positive.
KeepPolicy every_n_steps(std::int64_t interval, bool exact = true,
                         std::optional<std::size_t> max_to_keep = {});
// For each multiple of `interval` the closest step (of two equally close ones the later), and the
// last step. Throws as every_n_steps().
KeepPolicy every_n_steps_closest(std::int64_t interval,
                                 std::optional<std::size_t> max_to_keep = {});
// The first step, and each that was saved at least `interval` after the one kept before it.
KeepPolicy every(std::chrono::nanoseconds interval);
// The `count` best steps. The later step counts as the better of two equally good ones, in kMax and
// in kMin. If there are more steps than `count`, those without metrics are kept or not, as
// `keep_without_metrics` says.
KeepPolicy best(std::size_t count, MetricFn metric, BestMode mode = BestMode::kMax,
                bool keep_without_metrics = true);
// These steps.
KeepPolicy custom_steps(std::set<std::int64_t> steps);
// The first step that is at most this old, and all after it.
KeepPolicy latest_duration(std::chrono::nanoseconds duration);
// A step that any of the policies keeps.
KeepPolicy any_of(std::vector<KeepPolicy> policies);
}  // namespace keep_policy

}  // namespace cairn::inline v0
#pragma GCC visibility pop
