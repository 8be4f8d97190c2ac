// consistency.h -- whether all processes that do the work of a tool together were asked for the
// same, and have opened the same.
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

namespace cairn {

struct Intent {
  distributed::Consent asked;           // options, each by its name
  distributed::Consent opened{"sees"};  // by add_opened
};

// A step: does `prepare`, and where there are others `say`, which fills in the intent. Throws
// invalid_argument, naming the option, if a process was asked for something else than process 0;
// failed_precondition, naming what differs, if it has opened something else.
void agree(const distributed::ProcessGroup& group, std::string_view step,
           const std::function<void()>& prepare, const std::function<void(Intent&)>& say);

// What tells which checkpoint this is: its step, version and leaves, and of its values what was
// seen on opening. `which` goes in front of the names, where several are opened.
void add_opened(const Checkpoint& checkpoint, const std::string& which,
                distributed::Consent& opened);
// For a step that has gathered the digests of what its processes have opened. Throws as agree().
void check_opened(std::span<const std::uint64_t> digests, const distributed::Consent& opened,
                  const distributed::ProcessGroup& group, std::string_view step);

// Values of options, for people.
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

}  // namespace cairn
