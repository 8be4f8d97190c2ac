// step_name.cc -- the names of the directories of steps.
#include <cairn/checkpoint_manager.h>

#include <cairn/base/errors.h>
#include <cairn/orbax/layout/layout.h>

#include <algorithm>
#include <charconv>

namespace cairn::inline v0 {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether the user's own functions name the steps.
bool is_custom(const StepNameFormat& format) {
  if (static_cast<bool>(format.name) != static_cast<bool>(format.parse))
    invalid_argument("a step name format needs both `name` and `parse`, or neither");
  return static_cast<bool>(format.name);
}

std::string custom_name(std::int64_t step, const StepNameFormat& format) {
  std::string name = format.name(step);
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos || name.find(orbax::kTemporaryMark) != std::string::npos)
    invalid_argument("'" + name + "' cannot be the name of the directory of step " +
                     std::to_string(step));
  const auto parsed = format.parse(name);
  if (parsed != step)
    invalid_argument("the step name format makes '" + name + "' of step " + std::to_string(step) +
                     ", but its `parse` makes " +
                     (parsed ? "step " + std::to_string(*parsed) : "no step") + " of it");
  return name;
}

}  // namespace

std::string step_name(std::int64_t step, const StepNameFormat& format) {
  if (step < 0) invalid_argument("the step " + std::to_string(step) + " is negative");
  if (is_custom(format)) return custom_name(step, format);
  const std::string before = format.prefix.empty() ? "" : format.prefix + format.separator;
  if (before.find('/') != std::string::npos || before.find('\0') != std::string::npos ||
      before.find(orbax::kTemporaryMark) != std::string::npos)
    invalid_argument("'" + before + "' cannot be the beginning of a step's name");
  std::string digits = std::to_string(step);
  if (digits.size() < format.digits) digits.insert(0, format.digits - digits.size(), '0');
  return before + digits;
}

std::optional<std::int64_t> parse_step_name(std::string_view name, const StepNameFormat& format) {
  if (is_custom(format)) {
    const auto step = format.parse(name);
    return step && *step >= 0 && format.name(*step) == name ? step : std::nullopt;
  }
  if (!format.prefix.empty()) {
    const std::string before = format.prefix + format.separator;
    if (!name.starts_with(before)) return std::nullopt;
    name.remove_prefix(before.size());
  }
  if (name.empty() || !std::ranges::all_of(name, is_digit)) return std::nullopt;
  // Leading zeros only fill a name up to its length.
  const std::size_t length = std::max<std::size_t>(format.digits, 1);
  if (name.size() < length || (name.size() > length && name.front() == '0')) return std::nullopt;
  std::int64_t step = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), step);
  if (parsed.ec != std::errc()) return std::nullopt;
  return step;
}

}  // namespace cairn::inline v0
