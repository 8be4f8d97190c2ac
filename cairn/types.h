// types.h -- element types, shapes, boxes, and the two kinds of array: owned (Array) and borrowed
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

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Element types. In memory every element of a 2- or 4-bit type takes one byte, and only its low
// bits count. A read keeps the high bits as stored (as TensorStore does); a cast sets them to zero
// (as ml_dtypes does). All other types take their natural size in the machine's byte order
// (little-endian).
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
  // Elements of fixed size that Cairn stores but does not interpret (|S8, <U4, M8[ns], structured).
  // The size is stored separately.
  kOpaque,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::kOpaque);  // number of interpreted types

// The class of numbers that a type belongs to.
enum class DTypeKind : std::uint8_t { kBool, kInt, kUint, kFloat, kComplex, kOpaque };

// Name of the type in NumPy and JAX, which is also the Zarr v3 data_type name: "bfloat16",
// "float8_e4m3fn", "int4". For kOpaque: "opaque".
std::string_view dtype_name(DType dtype);
// Inverse of dtype_name; nullopt for an unknown name.
std::optional<DType> dtype_from_name(std::string_view name);
// Bytes of one element in memory; 0 for kOpaque.
std::size_t dtype_size(DType dtype);
// Significant bits of one element: 2 for the 2-bit types, 4 for int4, uint4 and float4_e2m1fn, else
// 8 * dtype_size.
int dtype_bits(DType dtype);
// Class of numbers of the type.
DTypeKind dtype_kind(DType dtype);

// Extents of an n-dimensional array, none negative. An empty shape has rank 0 and one element.
using Shape = std::vector<std::int64_t>;

// Number of elements; 0 if an extent is 0. Throws out_of_range if it exceeds 2^63-1,
// invalid_argument for a negative extent.
std::int64_t element_count(std::span<const std::int64_t> shape);
// The shape as Python prints it: "(3, 4)", "(3,)", "()".
std::string shape_text(std::span<const std::int64_t> shape);

// A hyper-rectangle of elements: [origin[d], origin[d] + shape[d]) in each dimension d.
struct Box {
  std::vector<std::int64_t> origin;
  Shape shape;

  // The box that covers an array of this shape.
  static Box whole(Shape shape) {
    return {std::vector<std::int64_t>(shape.size(), 0), std::move(shape)};
  }
  [[nodiscard]] std::size_t rank() const { return shape.size(); }
  // Whether the box has no elements.
  [[nodiscard]] bool empty() const {
    for (auto n : shape)
      if (n == 0) return true;
    return false;
  }
  bool operator==(const Box&) const = default;
};

// A strided n-dimensional array that borrows its bytes: the owner of the bytes must outlive the
// view. `strides` are in bytes and may be 0 or negative. `data` points at element (0, ..., 0).
// `element_size` equals dtype_size(dtype), unless dtype is kOpaque.
template <class Byte>
struct BasicArrayView {
  Byte* data = nullptr;
  DType dtype = DType::kUint8;
  std::size_t element_size = 1;
  Shape shape;
  std::vector<std::int64_t> strides;

  [[nodiscard]] bool contiguous() const {  // whether the array is in C order without gaps
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

// A C-contiguous array in host memory. Copies share the bytes, which live in a Buffer or in a
// mapped file. The bytes are read-only once the array is shared, because a mapping is read-only.
class Array {
 public:
  Array() = default;
  // Shares `owner`, which keeps `data` alive. `data` holds element_count(shape) * element_size
  // bytes.
  Array(DType dtype, std::size_t element_size, Shape shape, std::shared_ptr<const void> owner,
        const std::byte* data);
  // Allocates uninitialised memory. Fill it through `mutable_view` before you share the array.
  // Throws out_of_range for an array too large to address, invalid_argument for a negative extent
  // or for kOpaque without an element size, and unavailable if the memory cannot be allocated.
  static Array allocate(DType dtype, Shape shape);
  static Array allocate(DType dtype, std::size_t element_size, Shape shape);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t element_size() const { return element_size_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] ByteView bytes() const { return {data_, nbytes_}; }  // the elements in C order
  [[nodiscard]] ArrayView view() const;
  // Writable view of an array made by `allocate` and not yet shared. Throws failed_precondition
  // otherwise.
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

}  // namespace cairn::inline v0
#pragma GCC visibility pop
