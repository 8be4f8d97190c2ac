// capped_sum.h -- sums of sizes that a damaged checkpoint may claim.
#pragma once

#include <cstdint>

namespace cairn::inline v0 {

// Adds `value`. A sum that would exceed 64 bits becomes the largest number.
inline void add_capped(std::uint64_t& sum, std::uint64_t value) {
  sum = value > UINT64_MAX - sum ? UINT64_MAX : sum + value;
}

}  // namespace cairn::inline v0
