// store_time.cc -- times in requests and answers of stores.
#include <cairn/kvstore/object/request/store_time.h>

#include <cairn/base/text.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <optional>

namespace cairn::inline v0::object {
namespace {

struct ClockTime {
  std::int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
};

// Reads digits at the places of '#' in `form`; all other characters must be equal.
std::optional<std::array<std::int64_t, 6>> digits_in(std::string_view text, std::string_view form) {
  if (text.size() != form.size()) return std::nullopt;
  std::array<std::int64_t, 6> numbers{};
  std::size_t which = 0;
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form[i] != '#') {
      if (form[i] != '?' && text[i] != form[i]) return std::nullopt;
      continue;
    }
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    numbers[which] = numbers[which] * 10 + (text[i] - '0');
    if (i + 1 == form.size() || form[i + 1] != '#') ++which;
  }
  return numbers;
}

// nullopt for a time that no calendar has, or before 1970 or after 2200.
std::optional<std::int64_t> seconds_of(const ClockTime& time) {
  using namespace std::chrono;
  const year_month_day date{year(static_cast<int>(time.year)),
                            month(static_cast<unsigned>(time.month)),
                            day(static_cast<unsigned>(time.day))};
  if (!date.ok() || time.year < 1970 || time.year > 2200 || time.hour > 23 || time.minute > 59 ||
      time.second > 60)
    return std::nullopt;
  return sys_days(date).time_since_epoch() / seconds(1) + time.hour * 3600 + time.minute * 60 +
         time.second;
}

// Nanoseconds of "." and digits; nullopt for anything else.
std::optional<std::int64_t> ns_of_fraction(std::string_view text) {
  if (text.empty()) return 0;
  const std::string_view digits = text.substr(1);
  if (text.front() != '.' || digits.size() > 9 || !consists_of(digits, kDecimalDigits))
    return std::nullopt;
  std::int64_t value = 0;
  for (std::size_t i = 0; i < 9; ++i)
    value = value * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  return value;
}

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

}  // namespace

std::string compact_time(std::int64_t seconds) {
  using namespace std::chrono;
  const sys_seconds time{std::chrono::seconds(seconds)};
  const auto midnight = floor<days>(time);
  const year_month_day date(midnight);
  const hh_mm_ss clock(time - midnight);
  std::array<char, 64> text{};
  const int size = std::snprintf(
      text.data(), text.size(), "%04d%02u%02uT%02d%02d%02dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()));
  return {text.data(), static_cast<std::size_t>(size)};
}

std::int64_t ns_of_iso_time(std::string_view text) {
  constexpr std::string_view kForm = "####-##-##T##:##:##";
  if (text.size() <= kForm.size() || text.back() != 'Z') return 0;
  const auto numbers = digits_in(text.substr(0, kForm.size()), kForm);
  if (!numbers) return 0;
  const auto& n = *numbers;
  const auto seconds = seconds_of({n[0], n[1], n[2], n[3], n[4], n[5]});
  text.remove_suffix(1);
  const auto fraction = ns_of_fraction(text.substr(kForm.size()));
  return seconds && fraction ? *seconds * kNsPerSecond + *fraction : 0;
}

std::int64_t ns_of_http_date(std::string_view text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto numbers = digits_in(text, "???, ## ??? #### ##:##:## GMT");
  if (!numbers) return 0;
  const std::size_t month = kMonths.find(text.substr(8, 3));
  if (month == std::string_view::npos || month % 3 != 0) return 0;
  const auto& n = *numbers;
  const auto seconds =
      seconds_of({n[1], static_cast<std::int64_t>(month / 3 + 1), n[0], n[2], n[3], n[4]});
  return seconds ? *seconds * kNsPerSecond : 0;
}

}  // namespace cairn::inline v0::object
