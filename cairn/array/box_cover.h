// box_cover.h -- are these boxes together all of a box, each element in exactly one?
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn {

struct CoverFault {
  std::vector<std::size_t> boxes;   // two that share an element; or none: there is one in no box
  std::vector<std::int64_t> point;  // that element
};
// A fault, if there is one. All boxes lie in `whole`, and none is empty. Takes time as n * 2^k *
// log(n) for n boxes that are cut along k axes; only for more than 12 axes, or more points than can
// be numbered, as n * n.
std::optional<CoverFault> cover_fault(const Box& whole, std::span<const Box> boxes);

}  // namespace cairn
