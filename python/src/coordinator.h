// coordinator.h -- several processes that save together, which reach each other through an object
// of Python (cairn._processes).
#pragma once

#include "calls.h"

#include <cairn/distributed.h>

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <optional>

namespace cairn::python {

class PythonCoordinator;

// A job of several processes. Copies share the coordinator.
class Job {
 public:
  // The job of a cairn._processes.Job; none for None: this process alone.
  static std::optional<Job> of(nanobind::object job);
  // Removes the option "processes" and returns the job that it holds.
  static std::optional<Job> take(nanobind::dict options);

  [[nodiscard]] const MultiprocessingOptions& options() const { return options_; }
  // Makes the collective that this process waits in fail, for all processes. Does not throw.
  void cancel() const noexcept;

 private:
  explicit Job(nanobind::object job);

  std::shared_ptr<PythonCoordinator> coordinator_;
  MultiprocessingOptions options_;
};

// Runs `work` as run_long. An exception that asks it to stop also ends the waiting for other
// processes.
void run_long(const std::optional<Job>& job, const std::function<void(const CallControl&)>& work,
              nanobind::handle progress = nanobind::none(), Outcome outcome = Outcome::kValue);
// Runs `prepare` with Python's lock, then `work` as above. In a job, all processes learn between
// the two whether `prepare` has thrown in one of them.
void run_prepared(const std::optional<Job>& job, const std::function<void()>& prepare,
                  const std::function<void(const CallControl&)>& work,
                  nanobind::handle progress = nanobind::none(), Outcome outcome = Outcome::kValue);

}  // namespace cairn::python
