// types.h -- element types, shapes, boxes and the two kinds of array: owned (Array) and borrowed
// (views).
#pragma once

#include <cairn/bytes.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

// Element types. In memory every element of a 2- or 4-bit type takes one byte, of which only the
// low bits count: reading keeps the high bits as they are stored (as TensorStore does), casting
// writes them as zero (as ml_dtypes does). All others take their natural size, in the machine's
// byte order (little-endian).
enum class DType : std::uint8_t {
  kBool,
  kInt2,
  kInt4,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint2,
  kUint4,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat4E2m1fn,
  kFloat8E3m4,
  kFloat8E4m3,
  kFloat8E4m3fn,
  kFloat8E4m3fnuz,
  kFloat8E4m3b11fnuz,
  kFloat8E5m2,
  kFloat8E5m2fnuz,
  kFloat8E8m0fnu,
  kBfloat16,
  kFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
  // fixed-size elements Cairn stores but does not interpret (|S8, <U4, M8[ns], structured); size
  // kept beside
  kOpaque,
};
// how many interpreted types there are
inline constexpr int kDTypeCount = static_cast<int>(DType::kOpaque);

enum class DTypeKind : std::uint8_t { kBool, kInt, kUint, kFloat, kComplex, kOpaque };

// The NumPy / JAX name, which is also the Zarr v3 data_type name: "bfloat16", "float8_e4m3fn",
// "int4". kOpaque: "opaque".
std::string_view dtype_name(DType dtype);
// The reverse; nullopt for a name that is none of them.
std::optional<DType> dtype_from_name(std::string_view name);
// Bytes of one element in memory; 0 for kOpaque.
std::size_t dtype_size(DType dtype);
// Significant bits of one element: 2 for int2, 4 for int4 and float4_e2m1fn, else 8 * dtype_size.
int dtype_bits(DType dtype);
DTypeKind dtype_kind(DType dtype);

// Extents of an n-dimensional array; empty = rank 0 = one element. Never negative.
using Shape = std::vector<std::int64_t>;

// Number of elements; throws out_of_range if it does not fit into 2^63-1. An extent of 0 gives 0.
std::int64_t element_count(std::span<const std::int64_t> shape);
// "(3, 4)", "(3,)", "()": as Python prints a shape.
std::string shape_text(std::span<const std::int64_t> shape);

// A hyper-rectangle of elements: [origin[d], origin[d] + shape[d]) in each dimension.
struct Box {
  std::vector<std::int64_t> origin;
  Shape shape;

  static Box whole(Shape shape) {
    return {std::vector<std::int64_t>(shape.size(), 0), std::move(shape)};
  }
  [[nodiscard]] std::size_t rank() const { return shape.size(); }
  [[nodiscard]] bool empty() const {
    for (auto n : shape)
      if (n == 0) return true;
    return false;
  }
  bool operator==(const Box&) const = default;
};

// A strided n-dimensional array that borrows its bytes from someone who must outlive it. Strides
// are in bytes, may be 0 or negative; data points at element (0, ..., 0). element_size equals
// dtype_size(dtype) unless dtype is kOpaque.
template <class Byte>
struct BasicArrayView {
  Byte* data = nullptr;
  DType dtype = DType::kUint8;
  std::size_t element_size = 1;
  Shape shape;
  std::vector<std::int64_t> strides;

  [[nodiscard]] bool contiguous() const {  // C order, no gaps
    // unsigned: the extents of an empty array may have a product that wraps
    std::uint64_t expect = element_size;
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (shape[d] != 1 && static_cast<std::uint64_t>(strides[d]) != expect) return false;
      expect *= static_cast<std::uint64_t>(shape[d]);
    }
    return true;
  }
};
using ArrayView = BasicArrayView<const std::byte>;
using MutableArrayView = BasicArrayView<std::byte>;

// C-order strides in bytes.
std::vector<std::int64_t> c_strides(std::span<const std::int64_t> shape, std::size_t element_size);

// Arrays that share a buffer begin at multiples of this, as a Buffer does: no element, and no
// vector of the processor, lies across a cache line.
inline constexpr std::size_t kArrayAlignment = 64;
// The next multiple of it.
inline constexpr std::uint64_t padded_size(std::uint64_t nbytes) {
  return (nbytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
}

// Memory for values: uninitialised, 64-byte aligned; large ones are advised to use huge pages
// (first-touch page faults are the largest cost of a restore) and are returned to the system when
// freed.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A C-contiguous array in host memory. Copies share the bytes, which live in a Buffer or in a
// mapped file; they are read-only once the array has been handed out, because a mapping is.
class Array {
 public:
  Array() = default;
  // Shares `owner`, which keeps `data` alive; data holds element_count(shape) * element_size bytes.
  Array(DType dtype, std::size_t element_size, Shape shape, std::shared_ptr<const void> owner,
        const std::byte* data);
  // Uninitialised memory of its own; fill it through `mutable_view` before sharing it.
  static Array allocate(DType dtype, Shape shape);
  static Array allocate(DType dtype, std::size_t element_size, Shape shape);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t element_size() const { return element_size_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] ByteView bytes() const { return {data_, nbytes_}; }
  [[nodiscard]] ArrayView view() const;
  // Only for an array made by `allocate` and not yet shared; throws failed_precondition otherwise.
  [[nodiscard]] MutableArrayView mutable_view();

 private:
  DType dtype_ = DType::kUint8;
  std::size_t element_size_ = 1;
  Shape shape_{0};
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::size_t nbytes_ = 0;
  std::byte* writable_ = nullptr;
};

}  // namespace cairn
