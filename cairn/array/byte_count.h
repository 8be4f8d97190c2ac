// byte_count.h -- the bytes of an array's elements.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <span>

namespace cairn::inline v0 {

// Bytes of an array of this shape and type.
inline std::uint64_t byte_count(std::span<const std::int64_t> shape, DType dtype) {
  return static_cast<std::uint64_t>(element_count(shape)) * dtype_size(dtype);
}

}  // namespace cairn::inline v0
