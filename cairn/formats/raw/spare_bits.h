// spare_bits.h -- elements of less than a byte, one in each byte, as TensorFlow stores them.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// Calls f(offset) for every element of a box of this shape, in C order. The offset is the sum of
// index times stride over the dimensions.
template <class F>
void for_each_element(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
                      F f) {
  std::vector<std::int64_t> at(shape.size(), 0);
  for (std::int64_t left = element_count(shape); left > 0; --left) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
    f(offset);
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
}

// An element of less than 8 bits lies in the low bits of its byte. The other bits carry no
// information: they are zero in memory and in TensorFlow's files.
inline bool has_spare_bits(DType dtype) { return dtype != DType::kOpaque && dtype_bits(dtype) < 8; }
// Sets the unused bits of every element to zero. Does nothing for other types.
inline void clear_spare_bits(const MutableArrayView& view) {
  if (!has_spare_bits(view.dtype)) return;
  const auto mask = static_cast<std::byte>((1 << dtype_bits(view.dtype)) - 1);
  if (!view.contiguous())
    return for_each_element(view.shape, view.strides,
                            [&](std::int64_t offset) { view.data[offset] &= mask; });
  for (std::byte& element :
       std::span(view.data, static_cast<std::size_t>(element_count(view.shape))))
    element &= mask;
}

}  // namespace cairn::inline v0
