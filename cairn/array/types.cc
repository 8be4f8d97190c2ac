// types.cc -- shapes, and the memory behind arrays.
#include <cairn/error.h>
#include <cairn/types.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace cairn {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr std::size_t kPage = std::size_t{4} << 10U;

// From one huge page upwards a buffer is a mapping of its own.
constexpr bool is_mapped(std::size_t size) { return size >= kHugePage; }
// Only up to the next small page: a whole huge page at the end of every buffer would cost megabytes
// nobody asked for.
constexpr std::size_t mapped_size(std::size_t size) { return (size + kPage - 1) / kPage * kPage; }

[[noreturn]] void out_of_memory(std::size_t size) {
  throw Error(Code::kUnavailable, "cannot allocate " + std::to_string(size) +
                                      " bytes of memory for values: " + std::strerror(ENOMEM) +
                                      "; free some, or read less at once");
}

std::byte* map_pages(std::size_t size) {
  if (size > std::numeric_limits<std::size_t>::max() / 2) out_of_memory(size);
  const std::size_t wanted = mapped_size(size);
  void* const mapped = ::mmap(nullptr, wanted + kHugePage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) out_of_memory(size);
  // The kernel aligns to small pages. Keep the part that starts on a huge one and give the rest
  // back.
  auto* const start = static_cast<std::byte*>(mapped);
  const std::size_t skip =
      (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
  if (skip != 0) ::munmap(start, skip);
  ::munmap(start + skip + wanted, kHugePage - skip);
  // advice: where it is not taken, the memory is only slower
  ::madvise(start + skip, wanted, MADV_HUGEPAGE);
  return start + skip;
}

void release(std::byte* data, std::size_t size) noexcept {
  if (data == nullptr) return;
  if (is_mapped(size))
    ::munmap(data, mapped_size(size));
  else
    ::operator delete (data, std::align_val_t{kArrayAlignment});
}

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
  // Unsigned, because an empty array may have extents whose product wraps; its strides are then
  // never used.
  std::uint64_t stride = element_size;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(shape[d]);
  }
  return strides;
}

Buffer::Buffer(std::size_t size) : size_(size) {
  if (size == 0) return;
  if (is_mapped(size)) {
    data_ = map_pages(size);
    return;
  }
  data_ = static_cast<std::byte*>(
      ::operator new (size, std::align_val_t{kArrayAlignment}, std::nothrow));
  if (data_ == nullptr) out_of_memory(size);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release(data_, size_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Buffer::~Buffer() { release(data_, size_); }

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
    throw Error(Code::kInvalidArgument, "an opaque array needs its element size");
  return allocate(dtype, dtype_size(dtype), std::move(shape));
}

Array Array::allocate(DType dtype, std::size_t element_size, Shape shape) {
  auto buffer = std::make_shared<Buffer>(array_bytes(shape, element_size));
  std::byte* const data = buffer->data();
  Array array(dtype, element_size, std::move(shape), std::move(buffer), data);
  array.writable_ = data;
  return array;
}

ArrayView Array::view() const {
  return {.data = data_,
          .dtype = dtype_,
          .element_size = element_size_,
          .shape = shape_,
          .strides = c_strides(shape_, element_size_)};
}

MutableArrayView Array::mutable_view() {
  // An array without bytes has nothing to share and nothing to write.
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

}  // namespace cairn
