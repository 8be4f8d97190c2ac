// time_text.h -- formats points in time for people.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::inline v0 {

// Returns the time in this form: "2026-08-30 17:04:05.123 UTC".
std::string time_text(std::int64_t nanoseconds_since_1970);

}  // namespace cairn::inline v0
