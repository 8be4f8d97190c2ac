// arena.cc -- places arrays in shared blocks.

#include <cairn/array/arena.h>

#include <cairn/base/memory/raw_bytes.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t whole_pages(std::size_t size) {
  return (size + kHugePage - 1) / kHugePage * kHugePage;
}

bool is_large(std::uint64_t nbytes) { return nbytes >= ArrayArena::kLarge; }

}  // namespace

void ArrayArena::expect(std::uint64_t nbytes) {
  if (is_large(nbytes) || nbytes == 0) return;
  const auto size = static_cast<std::size_t>(padded_size(nbytes));
  if (expected_.empty() || expected_.back() + size > kBlock) expected_.push_back(0);
  expected_.back() += size;
}

// A block of several huge pages gets all of the last one, which then costs one page fault and not
// hundreds. But not if every block of many would waste a part of it.
void ArrayArena::begin_block(std::size_t size) {
  constexpr std::size_t kMostWaste = 128;  // at most one byte in so many
  const bool planned = next_ < expected_.size();
  if (planned) size = std::max(size, expected_[next_++]);
  const std::size_t whole = whole_pages(size);
  const bool last = next_ == expected_.size();
  const bool round = size >= kHugePage && (last || whole - size <= size / kMostWaste);
  block_ = std::make_shared<Buffer>(round ? whole : size);
  used_ = 0;
}

std::pair<Array, MutableArrayView> ArrayArena::allocate(DType dtype, std::size_t element_size,
                                                        Shape shape) {
  const auto elements = static_cast<std::uint64_t>(element_count(shape));
  std::uint64_t nbytes = 0;
  // Array::allocate refuses sizes that overflow; its error names the shape.
  const bool large =
      __builtin_mul_overflow(elements, std::uint64_t{element_size}, &nbytes) || is_large(nbytes);
  if (large || nbytes == 0) {
    Array array = Array::allocate(dtype, element_size, std::move(shape));
    MutableArrayView view = array.mutable_view();
    return {std::move(array), std::move(view)};
  }
  const auto size = static_cast<std::size_t>(padded_size(nbytes));
  if (block_ == nullptr || block_->size() - used_ < size) begin_block(size);
  std::byte* const data = block_->data() + used_;
  used_ += size;
  MutableArrayView view{.data = data,
                        .dtype = dtype,
                        .element_size = element_size,
                        .shape = shape,
                        .strides = c_strides(shape, element_size)};
  return {Array(dtype, element_size, std::move(shape), block_, data), std::move(view)};
}

}  // namespace cairn::inline v0
