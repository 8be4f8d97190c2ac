// step_events.h -- what a CheckpointManager reports to its observer about its steps.
#pragma once

#include <cairn/base/observer/observe.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0::orbax {

// Reports the events of one directory of steps, and measures the times between them. `path` and
// `observer` are those of the manager. docs/reference/observer.md explains each event.
class StepEvents {
 public:
  StepEvents(const Observer& observer, std::string path)
      : observer_(observer), path_(std::move(path)) {}

  // ---- the calls of the manager ----
  void found(std::size_t steps, std::chrono::nanoseconds duration) const;
  void incomplete(std::int64_t step, std::string_view folder, std::string_view why) const;
  void incomplete_replaced(std::int64_t step, std::string_view folder) const;
  void chosen(std::size_t examined, std::size_t to_remove, std::chrono::nanoseconds duration) const;
  void skipped_as_read_only(std::string_view operation) const;
  void option_ignored(std::string_view option) const;
  void metrics_missing(std::int64_t step) const;
  // The save of the step has waited for the one before, from `since` on.
  void waited(std::int64_t step, const Stopwatch& since) const;
  void blocked(std::int64_t step, const Stopwatch& since) const;

  // ---- in the thread of the save ----
  // The step is durable, and the process is to end. `saved_before`: when the manager has saved the
  // step before; none if it has not.
  void saved_by_preemption(std::int64_t step,
                           std::optional<std::chrono::system_clock::time_point> saved_before) const;
  void old_removed(std::int64_t step, const Stopwatch& since) const;
  // The save that began at `since` has ended. The next call of waited() reports how long ago.
  void finished(std::int64_t step, const Stopwatch& since);

 private:
  void report(EventLevel level, std::string_view name, std::int64_t step,
              std::optional<std::chrono::nanoseconds> duration = {}) const;

  const Observer& observer_;
  std::string path_;
  std::chrono::system_clock::time_point made_ = std::chrono::system_clock::now();
  std::optional<Stopwatch> last_end_;  // since the last save ended
};

}  // namespace cairn::inline v0::orbax
