// arena.cc -- places arrays in shared blocks.

#include <cairn/array/arena.h>

#include <cairn/base/memory/raw_bytes.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

// The size of a block of at least `size` bytes, of which most will be used. A block of several huge
// pages gets all of the last one, which then costs one page fault and not hundreds.
std::size_t whole_pages(std::size_t size) {
  return size < kHugePage ? size : (size + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

std::uint64_t ArrayArena::shared_bytes(std::uint64_t nbytes) {
  return nbytes <= kSmall ? padded_size(nbytes) : 0;
}

std::pair<Array, MutableArrayView> ArrayArena::allocate(DType dtype, std::size_t element_size,
                                                        Shape shape) {
  const auto elements = static_cast<std::uint64_t>(element_count(shape));
  std::uint64_t nbytes = 0;
  // Array::allocate refuses sizes that overflow; its error names the shape.
  const bool large =
      __builtin_mul_overflow(elements, std::uint64_t{element_size}, &nbytes) || nbytes > kSmall;
  if (large || nbytes == 0) {
    Array array = Array::allocate(dtype, element_size, std::move(shape));
    MutableArrayView view = array.mutable_view();
    return {std::move(array), std::move(view)};
  }
  const auto size = static_cast<std::size_t>(shared_bytes(nbytes));
  if (block_ == nullptr || block_->size() - used_ < size) {
    block_ = std::make_shared<Buffer>(
        std::max(size, whole_pages(std::min<std::uint64_t>(kBlock, expected_))));
    used_ = 0;
  }
  std::byte* const data = block_->data() + used_;
  used_ += size;
  expected_ -= std::min<std::uint64_t>(expected_, size);
  MutableArrayView view{.data = data,
                        .dtype = dtype,
                        .element_size = element_size,
                        .shape = shape,
                        .strides = c_strides(shape, element_size)};
  return {Array(dtype, element_size, std::move(shape), block_, data), std::move(view)};
}

}  // namespace cairn::inline v0
