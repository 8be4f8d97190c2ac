// cast_all.h -- converts the elements of many arrays on all cores.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/types.h>

#include <span>

namespace cairn::inline v0 {

// One conversion, as cast_elements().
struct Cast {
  ArrayView from;
  MutableArrayView to;  // of the same shape
};

// Converts all of them. Throws invalid_argument for kOpaque.
void cast_all(std::span<const Cast> casts, Executor& executor);

}  // namespace cairn::inline v0
