// types.cc -- shapes and arrays.
#include <cairn/error.h>
#include <cairn/types.h>

#include <cairn/array/box.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace cairn::inline v0 {
namespace {

std::size_t array_bytes(std::span<const std::int64_t> shape, std::size_t element_size) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element_size, &bytes) ||
      bytes > std::numeric_limits<std::int64_t>::max())
    throw Error(Code::kOutOfRange, "an array of shape " + shape_text(shape) + " with " +
                                       std::to_string(element_size) +
                                       "-byte elements is too large to address");
  return bytes;
}

}  // namespace

std::int64_t element_count(std::span<const std::int64_t> shape) {
  bool any_zero = false;
  bool overflow = false;
  std::int64_t count = 1;
  for (const std::int64_t n : shape) {
    if (n < 0)
      throw Error(Code::kInvalidArgument, "shape " + shape_text(shape) + " has a negative extent");
    any_zero |= n == 0;
    overflow |= __builtin_mul_overflow(count, n, &count);
  }
  if (any_zero) return 0;
  if (overflow)
    throw Error(Code::kOutOfRange, "shape " + shape_text(shape) + " has more than 2^63-1 elements");
  return count;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != 0) text += ", ";
    text += std::to_string(shape[d]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::vector<std::int64_t> c_strides(std::span<const std::int64_t> shape, std::size_t element_size) {
  std::vector<std::int64_t> strides(shape.size());
  // Unsigned, because the product of an empty array's extents may overflow. Its strides are then
  // never used.
  std::uint64_t stride = element_size;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(shape[d]);
  }
  return strides;
}

Array::Array(DType dtype, std::size_t element_size, Shape shape, std::shared_ptr<const void> owner,
             const std::byte* data)
    : dtype_(dtype),
      element_size_(element_size),
      shape_(std::move(shape)),
      owner_(std::move(owner)),
      data_(data),
      nbytes_(array_bytes(shape_, element_size)) {}

Array Array::allocate(DType dtype, Shape shape) {
  if (dtype == DType::kOpaque)
    throw Error(Code::kInvalidArgument, "an opaque array needs an element size");
  return allocate(dtype, dtype_size(dtype), std::move(shape));
}

Array Array::allocate(DType dtype, std::size_t element_size, Shape shape) {
  auto buffer = std::make_shared<Buffer>(array_bytes(shape, element_size));
  std::byte* const data = buffer->data();
  Array array(dtype, element_size, std::move(shape), std::move(buffer), data);
  array.writable_ = data;
  return array;
}

Array Array::copy_of(ByteView bytes, DType dtype, const Shape& shape) {
  Array array = allocate(dtype, shape);
  if (array.nbytes_ != bytes.size())
    throw Error(Code::kInvalidArgument, std::to_string(bytes.size() / array.element_size_) +
                                            " elements do not fill an array of shape " +
                                            shape_text(array.shape_) + ": expected " +
                                            std::to_string(array.nbytes_ / array.element_size_));
  std::copy(bytes.begin(), bytes.end(), array.writable_);
  return array;
}

void Array::check_as(DType wanted, std::size_t alignment) const {
  if (wanted != dtype_)
    throw Error(Code::kInvalidArgument,
                "the elements of the array are " + std::string(dtype_name(dtype_)) + ", not " +
                    std::string(dtype_name(wanted)) + "; cast() converts them");
  if (reinterpret_cast<std::uintptr_t>(data_) % alignment != 0)
    throw Error(Code::kFailedPrecondition,
                "the elements of the array are not aligned to " + std::to_string(alignment) +
                    " bytes, because the mapped file does not align them; read the array instead");
}

Array Array::cast(DType dtype) const {
  if (dtype == dtype_ && dtype != DType::kOpaque) return *this;
  if (dtype == DType::kOpaque || dtype_ == DType::kOpaque)
    throw Error(Code::kInvalidArgument, "an array of " + std::string(dtype_name(dtype_)) +
                                            " elements cannot be cast to " +
                                            std::string(dtype_name(dtype)));
  Array out = allocate(dtype, shape_);
  cast_elements(view(), out.mutable_view());
  return out;
}

bool Array::operator==(const Array& other) const {
  return dtype_ == other.dtype_ && element_size_ == other.element_size_ && shape_ == other.shape_ &&
         nbytes_ == other.nbytes_ &&
         (nbytes_ == 0 || std::memcmp(data_, other.data_, nbytes_) == 0);
}

ArrayView Array::view() const {
  return {.data = data_,
          .dtype = dtype_,
          .element_size = element_size_,
          .shape = shape_,
          .strides = c_strides(shape_, element_size_)};
}

MutableArrayView Array::mutable_view() {
  // An array without bytes has no memory to share and none to write.
  const bool ours = nbytes_ == 0 || (writable_ != nullptr && owner_.use_count() == 1);
  if (!ours)
    throw Error(
        Code::kFailedPrecondition,
        "this array is read-only: its bytes are shared or belong to a file; copy it to change it");
  return {.data = writable_,
          .dtype = dtype_,
          .element_size = element_size_,
          .shape = shape_,
          .strides = c_strides(shape_, element_size_)};
}

}  // namespace cairn::inline v0
