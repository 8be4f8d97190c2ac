// types.h -- element types, shapes, boxes, and the two kinds of array: owned (Array) and borrowed
// (views).
#pragma once

#include <cairn/bytes.h>

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
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

// A C++ type with an element type of its own: bool, the integers of 8 to 64 bits (not char and the
// other types of characters), float, double and their complex numbers.
template <class T>
concept ElementType = (std::integral<T> && sizeof(T) <= 8 && std::same_as<T, std::remove_cv_t<T>> &&
                       !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
                       !std::same_as<T, char8_t> && !std::same_as<T, char16_t> &&
                       !std::same_as<T, char32_t>) ||
                      std::same_as<T, float> || std::same_as<T, double> ||
                      std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;
// The element type of a C++ type: dtype_of<float>() is kFloat32.
template <ElementType T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, bool>) return DType::kBool;
  if constexpr (std::same_as<T, float>) return DType::kFloat32;
  if constexpr (std::same_as<T, double>) return DType::kFloat64;
  if constexpr (std::same_as<T, std::complex<float>>) return DType::kComplex64;
  if constexpr (std::same_as<T, std::complex<double>>) return DType::kComplex128;
  if constexpr (std::signed_integral<T>)
    return sizeof(T) == 1   ? DType::kInt8
           : sizeof(T) == 2 ? DType::kInt16
           : sizeof(T) == 4 ? DType::kInt32
                            : DType::kInt64;
  if constexpr (std::unsigned_integral<T> && !std::same_as<T, bool>)
    return sizeof(T) == 1   ? DType::kUint8
           : sizeof(T) == 2 ? DType::kUint16
           : sizeof(T) == 4 ? DType::kUint32
                            : DType::kUint64;
}

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
// mapped file. Reading is always allowed. Only the single owner of allocated memory may write, and
// only through mutable_view() and mutable_as(), which check that: neither a shared array nor a
// mapped file can be changed.
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
  // Copies elements, which are given in C order: Array::from<float>({1, 2, 3, 4}, {2, 2}). Throws
  // as allocate, and invalid_argument if the shape needs another number of elements.
  template <ElementType T>
  static Array from(std::span<const T> values, const Shape& shape) {
    return copy_of(std::as_bytes(values), dtype_of<T>(), shape);
  }
  template <ElementType T>
  static Array from(std::initializer_list<T> values, const Shape& shape) {
    return from<T>(std::span<const T>(values.begin(), values.size()), shape);
  }

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t element_size() const { return element_size_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] ByteView bytes() const { return {data_, nbytes_}; }  // the elements in C order
  // Keeps the elements alive. Arrays that share a block of memory have one owner.
  [[nodiscard]] const std::shared_ptr<const void>& owner() const { return owner_; }
  [[nodiscard]] ArrayView view() const;
  // Writable view of an array that this object alone owns: one made by allocate() or from(), or
  // returned by cast() or Checkpoint::read(), while it has no copies. Throws failed_precondition
  // otherwise.
  [[nodiscard]] MutableArrayView mutable_view();

  // The elements in C order; the span is valid while the array or a copy of it exists. Throws
  // invalid_argument, which names both types, if T is not the type of the elements (no element is
  // converted: see cast), and failed_precondition if they are not aligned for T, as in a mapped
  // file.
  template <ElementType T>
  [[nodiscard]] std::span<const T> as() const& {
    check_as(dtype_of<T>(), alignof(T));
    return {reinterpret_cast<const T*>(data_), nbytes_ / sizeof(T)};
  }
  template <ElementType T>
  std::span<const T> as() const&& = delete;  // the span would outlive the array
  // The same, writable. Throws also as mutable_view.
  template <ElementType T>
  [[nodiscard]] std::span<T> mutable_as() & {
    check_as(dtype_of<T>(), alignof(T));
    return {reinterpret_cast<T*>(mutable_view().data), nbytes_ / sizeof(T)};
  }
  // The array converted to another element type, as NumPy's astype converts it: floats round to
  // nearest even, integers wrap, floats to integers truncate. Shares the bytes if the type stays.
  // Throws invalid_argument if either type is kOpaque, else as allocate.
  [[nodiscard]] Array cast(DType dtype) const;

  // Whether both have one element type, one shape and identical bytes. A NaN therefore equals a NaN
  // with the same bits, and 0.0 differs from -0.0.
  bool operator==(const Array& other) const;

 private:
  static Array copy_of(ByteView bytes, DType dtype, const Shape& shape);
  void check_as(DType wanted, std::size_t alignment) const;

  DType dtype_ = DType::kUint8;
  std::size_t element_size_ = 1;
  Shape shape_{0};
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::size_t nbytes_ = 0;
  std::byte* writable_ = nullptr;
};

// An array whose element type is known when the program is compiled. It is a range of its elements
// in C order.
template <ElementType T>
class TypedArray : public Array {
 public:
  using value_type = T;
  // Throws as Array::as.
  explicit TypedArray(Array array) : Array(std::move(array)), values_(Array::as<T>()) {}

  [[nodiscard]] const T* data() const { return values_.data(); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size(); }
  [[nodiscard]] const T& operator[](std::size_t i) const { return values_[i]; }

 private:
  std::span<const T> values_;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
