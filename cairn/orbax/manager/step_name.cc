// step_name.cc -- the names of the directories of steps.
#include <cairn/checkpoint_manager.h>

#include <cairn/base/errors.h>

#include <algorithm>
#include <charconv>

namespace cairn::inline v0 {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string step_name(std::int64_t step, const StepNameFormat& format) {
  if (step < 0) invalid_argument("the step " + std::to_string(step) + " is negative");
  if (format.prefix.find('/') != std::string::npos)
    invalid_argument("'" + format.prefix + "' cannot be the prefix of a step's name");
  std::string digits = std::to_string(step);
  if (digits.size() < format.digits) digits.insert(0, format.digits - digits.size(), '0');
  return format.prefix.empty() ? digits : format.prefix + "_" + digits;
}

std::optional<std::int64_t> parse_step_name(std::string_view name, const StepNameFormat& format) {
  if (!format.prefix.empty()) {
    if (!name.starts_with(format.prefix + "_")) return std::nullopt;
    name.remove_prefix(format.prefix.size() + 1);
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
