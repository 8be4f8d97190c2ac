// process_group.h -- the processes that do something together, step by step: what fails in one of
// them fails in all, at once and by name.
#pragma once

#include <cairn/distributed.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::distributed {

// What the others do before a meeting, which decides how long it may be waited for.
enum class StepKind : std::uint8_t { kControl, kIo };

class ProcessGroup {
 public:
  // Throws invalid_argument for a primary host that is no process of the job and for time-outs that
  // are not positive.
  explicit ProcessGroup(MultiprocessingOptions options);

  [[nodiscard]] bool is_single() const { return count() == 1; }
  [[nodiscard]] std::size_t index() const {
    return options_.coordinator ? options_.coordinator->process_index() : 0;
  }
  [[nodiscard]] std::size_t count() const {
    return options_.coordinator ? options_.coordinator->process_count() : 1;
  }
  // Whether this process does what is done once.
  [[nodiscard]] bool is_primary() const {
    return !options_.primary_host || *options_.primary_host == index();
  }
  // Whether every process is primary, in a folder of its own.
  [[nodiscard]] bool writes_separately() const { return !options_.primary_host; }
  // The process that all others must agree with.
  [[nodiscard]] std::size_t primary() const { return options_.primary_host.value_or(0); }

  // One step: does `work` here and then meets the others, who do the same by the same name. If it
  // threw in any process, this throws in all: its own error where there is one, else that of the
  // first process that has one, with "process 2" in front. Nobody is in the step any more when it
  // has returned; who does not come is named when the time is over. Everything a process does
  // belongs into a step, or the others wait for nothing.
  void step(std::string_view name, StepKind kind, const std::function<void()>& work) const;
  // The same, for work that has something to say: returns what each has said, in the order of the
  // processes.
  std::vector<Bytes> gather(std::string_view name, StepKind kind,
                            const std::function<Bytes()>& work) const;

  // Within a step that begins with many meetings of its name: the coordinator's (not for a process
  // that is alone), by its rules. `prepare` makes what this process gives, `take` gets what came;
  // where either throws, the next meeting of that name is broken off.
  void exchange(std::string_view name, const Coordinator::Delivery& between,
                const std::function<Bytes()>& prepare,
                const std::function<void(std::vector<Bytes>)>& take) const;
  // `work` between such meetings, by the same rule.
  void between_exchanges(std::string_view name, const std::function<void()>& work) const;
  [[nodiscard]] std::uint64_t max_value_bytes() const {
    return options_.coordinator ? options_.coordinator->max_value_bytes() : UINT64_MAX;
  }

 private:
  MultiprocessingOptions options_;
};

}  // namespace cairn::distributed
