// step_events.cc -- the names, levels and attributes of the events.
#include <cairn/orbax/manager/step_events.h>

#include <algorithm>

namespace cairn::inline v0::orbax {
namespace {

// Orbax warns of a longer wait, too: the program saves more often than its storage allows.
constexpr std::chrono::seconds kLongWait(1);

std::int64_t count_of(std::size_t n) { return static_cast<std::int64_t>(n); }

}  // namespace

void StepEvents::report(EventLevel level, std::string_view name, std::int64_t step,
                        std::optional<std::chrono::nanoseconds> duration) const {
  observe(observer_, level, name, {{"path", path_}, {"step", step}}, duration);
}

void StepEvents::found(std::size_t steps, std::chrono::nanoseconds duration) const {
  observe(observer_, EventLevel::kInfo, "steps.found",
          {{"path", path_}, {"steps", count_of(steps)}}, duration);
}

void StepEvents::incomplete(std::int64_t step, std::string_view folder,
                            std::string_view why) const {
  observe(observer_, EventLevel::kWarning, "steps.incomplete",
          {{"path", path_}, {"step", step}, {"folder", folder}, {"message", why}});
}

void StepEvents::incomplete_replaced(std::int64_t step, std::string_view folder) const {
  observe(observer_, EventLevel::kWarning, "steps.incomplete_replaced",
          {{"path", path_}, {"step", step}, {"folder", folder}});
}

void StepEvents::chosen(std::size_t examined, std::size_t to_remove,
                        std::chrono::nanoseconds duration) const {
  observe(observer_, EventLevel::kInfo, "steps.chosen",
          {{"path", path_}, {"examined", count_of(examined)}, {"to_remove", count_of(to_remove)}},
          duration);
}

void StepEvents::skipped_as_read_only(std::string_view operation) const {
  observe(observer_, EventLevel::kWarning, "steps.read_only",
          {{"path", path_}, {"operation", operation}});
}

void StepEvents::option_ignored(std::string_view option) const {
  observe(observer_, EventLevel::kWarning, "steps.option_ignored",
          {{"path", path_}, {"option", option}});
}

void StepEvents::metrics_missing(std::int64_t step) const {
  report(EventLevel::kWarning, "steps.metrics_missing", step);
}

void StepEvents::waited(std::int64_t step, const Stopwatch& since) const {
  const std::chrono::nanoseconds wait = since.elapsed();
  report(wait > kLongWait ? EventLevel::kWarning : EventLevel::kInfo, "steps.waited", step, wait);
  // A save that was still running has ended during the wait.
  if (last_end_)
    report(EventLevel::kInfo, "steps.between_saves", step,
           std::max(last_end_->elapsed() - wait, std::chrono::nanoseconds(0)));
}

void StepEvents::blocked(std::int64_t step, const Stopwatch& since) const {
  report(EventLevel::kInfo, "steps.blocked", step, since.elapsed());
}

void StepEvents::saved_by_preemption(
    std::int64_t step, std::optional<std::chrono::system_clock::time_point> saved_before) const {
  report(EventLevel::kInfo, "steps.saved_by_preemption", step,
         std::chrono::system_clock::now() - saved_before.value_or(made_));
}

void StepEvents::old_removed(std::int64_t step, const Stopwatch& since) const {
  report(EventLevel::kInfo, "steps.old_removed", step, since.elapsed());
}

void StepEvents::finished(std::int64_t step, const Stopwatch& since) {
  report(EventLevel::kInfo, "steps.finished", step, since.elapsed());
  last_end_ = Stopwatch();
}

}  // namespace cairn::inline v0::orbax
