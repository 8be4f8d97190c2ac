// consistency.h -- checks that all processes of a tool got the same options and opened the same
// checkpoint.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed/consistency.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// The options and checkpoints that must be the same in all processes.
struct ToolConsistencyCheck {
  distributed::ConsistencyCheck options;
  distributed::ConsistencyCheck opened{"sees"};  // filled by add_opened
};

// One collective step. Runs `prepare`; if there are other processes, also runs `add_values`, and
// compares the values. Throws invalid_argument, naming the option, if a process
// has another option than process 0. Throws failed_precondition, naming the difference, if a
// process has opened something else.
void check_consistency(const distributed::ProcessGroup& group, std::string_view step,
                       const std::function<void()>& prepare,
                       const std::function<void(ToolConsistencyCheck&)>& add_values);

// Adds what identifies a checkpoint: its step, version and leaves, and what opening it shows of its
// values. `which` is prefixed to the names if several checkpoints are opened.
void add_opened(const Checkpoint& checkpoint, const std::string& which,
                distributed::ConsistencyCheck& opened);
// Performs the comparison for a step that has already gathered messages with the digest of what
// each process opened, at byte `at`. Throws as check_consistency() does.
void check_opened(std::span<const Bytes> messages, const distributed::ConsistencyCheck& opened,
                  const distributed::ProcessGroup& group, std::string_view step,
                  std::size_t at = 0);

// Option values as text, for messages.
std::string option_text(bool flag);
std::string option_text(double number);
std::string option_text(const std::string& text);
std::string option_text(const std::vector<std::string>& texts);
std::string option_text(const std::vector<std::pair<std::string, std::string>>& rules);
template <class Number>
std::string option_text(const std::optional<Number>& number) {
  return number ? std::to_string(*number) : "none";
}
std::string option_text(const std::optional<std::string>& text);

}  // namespace cairn::inline v0
