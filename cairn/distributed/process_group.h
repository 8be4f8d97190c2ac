// process_group.h -- a group of processes that work together in steps. A failure in one process
// fails the step in all of them, and the error names the process.
#pragma once

#include <cairn/distributed.h>
#include <cairn/observer.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::distributed {

// The work that other processes do before a collective; it selects the time-out. kControl: little
// work; kIo: reading or writing much data.
enum class StepKind : std::uint8_t { kControl, kIo };

// The processes of a job, and this process's place among them.
class ProcessGroup {
 public:
  // Throws invalid_argument if the primary host is not a process of the job or a time-out is not
  // positive. The observer gets an event for each step of several processes.
  explicit ProcessGroup(MultiprocessingOptions options, Observer observer = {});

  // Returns whether this process is the only one of its job.
  [[nodiscard]] bool is_single() const { return count() == 1; }
  // Returns the index of this process; 0 without a coordinator.
  [[nodiscard]] std::size_t index() const {
    return options_.coordinator ? options_.coordinator->process_index() : 0;
  }
  // Returns the number of processes; 1 without a coordinator.
  [[nodiscard]] std::size_t count() const {
    return options_.coordinator ? options_.coordinator->process_count() : 1;
  }
  // Returns whether this process does the work that is done once.
  [[nodiscard]] bool is_primary() const {
    return !options_.primary_host || *options_.primary_host == index();
  }
  // Returns whether every process is primary and writes to a folder of its own.
  [[nodiscard]] bool writes_separately() const { return !options_.primary_host; }
  // Returns the process that all others must agree with.
  [[nodiscard]] std::size_t primary() const { return options_.primary_host.value_or(0); }

  // Runs one step: does `work` here, then meets the other processes, which run their work under the
  // same name. If the work threw in any process, this function throws in all processes: this
  // process's own error if it has one, else the error of the first process that has one, prefixed
  // with "process 2". Throws invalid_argument if the processes have different primary hosts. When
  // it returns, no process is still in the step. An error names the processes that do not come
  // within the time-out. Do all work inside steps: an error outside a step leaves the other
  // processes waiting in vain. So does a step that only some processes take: an option may decide
  // about a step only after an earlier step has compared it.
  void step(std::string_view name, StepKind kind, const std::function<void()>& work) const;
  // Like step(), for work that returns a value. Returns the values of all processes, in process
  // order.
  std::vector<Bytes> gather(std::string_view name, StepKind kind,
                            const std::function<Bytes()>& work) const;

  // Runs Coordinator::exchange, with its rules, within a step that begins with many exchanges of
  // its name. Do not call it in a group of one process. `prepare` returns the value that this
  // process sends; `take` gets the values that arrive. If either throws, this process aborts the
  // next collective of that name.
  void exchange(std::string_view name, const Coordinator::Delivery& between,
                const std::function<Bytes()>& prepare,
                const std::function<void(std::vector<Bytes>)>& take) const;
  // Runs `work` between such exchanges. If it throws, this process aborts the next collective of
  // that name.
  void between_exchanges(std::string_view name, const std::function<void()>& work) const;
  // Returns the largest value that a process may send in one exchange, in bytes.
  [[nodiscard]] std::uint64_t max_value_bytes() const {
    return options_.coordinator ? options_.coordinator->max_value_bytes() : UINT64_MAX;
  }

 private:
  // The key of a collective: its name, behind the prefix of the options.
  [[nodiscard]] std::string key(std::string_view name) const;

  MultiprocessingOptions options_;
  Observer observer_;
};

}  // namespace cairn::inline v0::distributed
