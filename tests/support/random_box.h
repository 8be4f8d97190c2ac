// random_box.h -- boxes of any place and size.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <random>

namespace cairn::testing {

// A box inside an array of this shape. It may be empty.
inline Box random_box(std::mt19937& random, const Shape& shape) {
  Box box = Box::whole(shape);
  for (std::size_t d = 0; d < box.rank(); ++d) {
    const auto extent = static_cast<std::uint64_t>(shape[d]);
    box.origin[d] = static_cast<std::int64_t>(random() % (extent + 1));
    box.shape[d] = static_cast<std::int64_t>(
        random() % (extent - static_cast<std::uint64_t>(box.origin[d]) + 1));
  }
  return box;
}

}  // namespace cairn::testing
