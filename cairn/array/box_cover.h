// box_cover.h -- checks that boxes together cover a box, each element exactly once.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// An element that is covered twice or not at all.
struct CoverFault {
  std::vector<std::size_t> boxes;   // two boxes that share the element; empty: no box contains it
  std::vector<std::int64_t> point;  // the element
};
// Returns a fault if there is one. All boxes must lie in `whole` and must not be empty. Takes time
// n * 2^k * log(n) for n boxes that are cut along k axes. With more than 12 axes, or more points
// than can be numbered, the time is n * n.
std::optional<CoverFault> cover_fault(const Box& whole, std::span<const Box> boxes);

}  // namespace cairn::inline v0
