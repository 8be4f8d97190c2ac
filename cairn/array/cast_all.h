// cast_all.h -- converts the elements of many arrays on all cores.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// One conversion, as cast_elements().
struct Cast {
  ArrayView from;
  MutableArrayView to;  // of the same shape
  // Whether elements that `to` cannot hold are reported (cast_check.h).
  bool checked = false;
};

// An element that the new type cannot hold.
struct LostElement {
  std::size_t cast = 0;             // number of the conversion
  std::vector<std::int64_t> index;  // in its arrays
};

// Converts all of them, and returns the first element of a checked conversion that is lost. What
// the conversions have made is then incomplete. Throws invalid_argument for kOpaque.
std::optional<LostElement> cast_all(std::span<const Cast> casts, Executor& executor);

}  // namespace cairn::inline v0
