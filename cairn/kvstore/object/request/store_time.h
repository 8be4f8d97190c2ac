// store_time.h -- times in requests and answers of stores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// "20130524T000000Z" of seconds since 1970.
std::string compact_time(std::int64_t seconds);
// Nanoseconds since 1970 of "2026-11-28T14:00:00.123Z"; 0 for any other text.
std::int64_t ns_of_iso_time(std::string_view text);
// Nanoseconds since 1970 of "Sat, 28 Nov 2026 14:00:00 GMT"; 0 for any other text.
std::int64_t ns_of_http_date(std::string_view text);

}  // namespace cairn::inline v0::object
