// time_text.cc -- formats times with the calendar of the standard library.
#include <cairn/base/text/time_text.h>

#include <fmt/format.h>

#include <chrono>

namespace cairn::inline v0 {

std::string time_text(std::int64_t nanoseconds_since_1970) {
  using namespace std::chrono;
  const auto milliseconds_total = floor<milliseconds>(nanoseconds(nanoseconds_since_1970)).count();
  const auto days_total = floor<days>(milliseconds(milliseconds_total));
  const year_month_day date{sys_days(days_total)};
  const auto rest = milliseconds_total - duration_cast<milliseconds>(days_total).count();
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03} UTC", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     rest / 3600000, rest / 60000 % 60, rest / 1000 % 60, rest % 1000);
}

}  // namespace cairn::inline v0
