#include <cairn/formats/raw/signs.h>

#include <cairn/base/byte_order.h>
#include <cairn/error.h>
#include <cairn/formats/raw/spare_bits.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace cairn::inline v0 {
namespace {

// Changes the sign bit of the number of `size` bytes.
void flip_sign(std::byte* number, std::size_t size) {
  number[kBigEndianMachine ? 0 : size - 1] ^= std::byte{0x80};
}

// Two's complement: the negative is the inverse plus one.
void negate_integer(std::byte* number, std::size_t size) {
  std::uint64_t value = 0;
  std::byte* const low =
      reinterpret_cast<std::byte*>(&value) + (kBigEndianMachine ? sizeof(value) - size : 0);
  std::memcpy(low, number, size);
  value = ~value + 1;
  std::memcpy(number, low, size);
}

}  // namespace

void negate(const MutableArrayView& view) {
  const DTypeKind kind = dtype_kind(view.dtype);
  const std::size_t size = view.element_size;
  if (kind == DTypeKind::kBool || kind == DTypeKind::kOpaque || has_spare_bits(view.dtype) ||
      view.dtype == DType::kFloat8E8m0fnu)
    throw Error(Code::kUnimplemented,
                "a negative view of " + std::string(dtype_name(view.dtype)) + " elements");
  for_each_element(view.shape, view.strides, [&](std::int64_t offset) {
    std::byte* element = view.data + offset;
    if (kind == DTypeKind::kInt || kind == DTypeKind::kUint) {
      negate_integer(element, size);
    } else if (kind == DTypeKind::kComplex) {
      flip_sign(element, size / 2);
      flip_sign(element + size / 2, size / 2);
    } else {
      flip_sign(element, size);
    }
  });
}

void conjugate(const MutableArrayView& view) {
  if (dtype_kind(view.dtype) != DTypeKind::kComplex) return;
  const std::size_t half = view.element_size / 2;
  for_each_element(view.shape, view.strides,
                   [&](std::int64_t offset) { flip_sign(view.data + offset + half, half); });
}

}  // namespace cairn::inline v0
