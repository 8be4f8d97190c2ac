// python_number.cc -- converts elements to Python numbers, and Python numbers to elements.
#include <cairn/tree/python_number.h>

#include <cairn/array/box.h>

#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <variant>

namespace cairn::inline v0 {
namespace {

template <class T>
T cast_element(const Array& element, DType to) {
  T value{};
  cast_elements(
      element.view(),
      make_view(MutableByteView(reinterpret_cast<std::byte*>(&value), sizeof(T)), to, Shape{}));
  return value;
}

}  // namespace

Tree python_number(const Array& element) {
  switch (dtype_kind(element.dtype())) {
    case DTypeKind::kBool:
      return Tree(element.bytes()[0] != std::byte{0});
    case DTypeKind::kInt:
      return Tree(cast_element<std::int64_t>(element, DType::kInt64));
    case DTypeKind::kUint: {
      const auto value = cast_element<std::uint64_t>(element, DType::kUint64);
      if (value <= static_cast<std::uint64_t>(INT64_MAX))
        return Tree(static_cast<std::int64_t>(value));
      return Tree(value);
    }
    case DTypeKind::kFloat:
      return Tree(cast_element<double>(element, DType::kFloat64));
    case DTypeKind::kComplex:
      return Tree(cast_element<std::complex<double>>(element, DType::kComplex128));
    case DTypeKind::kOpaque:
      break;
  }
  return Tree(element);
}

std::optional<NumpyScalar> number_of(const Tree& leaf) {
  return std::visit(
      [](const auto& value) -> std::optional<NumpyScalar> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, NumpyScalar>) {
          return value;
        } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::complex<double>>) {
          NumpyScalar number{.dtype = dtype_of<T>()};
          std::memcpy(number.value.data(), &value, sizeof(value));
          return number;
        } else {
          return std::nullopt;
        }
      },
      leaf.value());
}

Array rank_0(const NumpyScalar& number) {
  Array array = Array::allocate(number.dtype, {});
  std::memcpy(array.mutable_view().data, number.value.data(), array.bytes().size());
  return array;
}

}  // namespace cairn::inline v0
