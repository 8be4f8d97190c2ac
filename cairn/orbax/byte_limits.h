// byte_limits.h -- limits that a caller states in gigabytes (10^9 bytes) or in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cairn::inline v0::orbax {

// Throws invalid_argument: the limit `what` must be positive.
[[noreturn]] void refuse_limit(const std::string& what, std::int64_t number);
// Throws invalid_argument: the limit is given in both units.
[[noreturn]] void refuse_two_limits(const std::string& what);
// Returns the limit in bytes that is given as `what` + "_gb" or as `what` + "_bytes"; none: 96 GB.
// Throws invalid_argument for both, and for one that is not positive.
std::int64_t limit_bytes(const std::optional<std::int64_t>& gigabytes,
                         const std::optional<std::int64_t>& bytes, const std::string& what);

}  // namespace cairn::inline v0::orbax
