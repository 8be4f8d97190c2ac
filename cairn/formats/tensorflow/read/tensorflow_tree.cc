// tensorflow_tree.cc -- converts a tree in memory to the tensors of a TensorFlow checkpoint.
#include <cairn/tensorflow.h>

#include <cairn/tree/names.h>

#include <array>
#include <complex>
#include <cstring>
#include <deque>
#include <utility>
#include <variant>

namespace cairn::inline v0 {
namespace {

class Leaves {
 public:
  void add(const KeyPath& path, const Tree& leaf) {
    with_context(
        [&] { return leaf_text(path); },
        [&] { std::visit([&](const auto& value) { add_value(path, value); }, leaf.value()); });
  }
  [[nodiscard]] std::vector<TensorFlowSource>& sources() { return sources_; }
  [[nodiscard]] const std::vector<ArrayView>& views() const { return views_; }

 private:
  void add_value(const KeyPath& path, const Array& array) { add_array(path, array.view()); }
  void add_value(const KeyPath& path, bool value) { add_number(path, DType::kBool, value); }
  void add_value(const KeyPath& path, std::int64_t value) {
    add_number(path, DType::kInt64, value);
  }
  void add_value(const KeyPath& path, std::uint64_t value) {
    add_number(path, DType::kUint64, value);
  }
  void add_value(const KeyPath& path, double value) { add_number(path, DType::kFloat64, value); }
  void add_value(const KeyPath& path, const std::complex<double>& value) {
    add_number(path, DType::kComplex128, value);
  }
  void add_value(const KeyPath& path, const NumpyScalar& value) {
    add_number(path, value.dtype, value.value);
  }
  void add_value(const KeyPath& path, const std::string& value) { add_string(path, value); }
  void add_value(const KeyPath& path, const Bytes& value) {
    add_string(path, std::string(as_text(value)));
  }
  template <class Other>
  static void add_value(const KeyPath&, const Other&) {
    throw Error(Code::kInvalidArgument,
                "TensorFlow cannot store this leaf; it stores arrays, numbers, strings and bytes");
  }

  template <class T>
  void add_number(const KeyPath& path, DType dtype, const T& value) {
    std::array<std::byte, 16>& number = numbers_.emplace_back();
    static_assert(sizeof(T) <= sizeof(number));
    std::memcpy(number.data(), &value, sizeof(T));
    add_array(path, make_scalar(number, dtype));
  }
  static ArrayView make_scalar(const std::array<std::byte, 16>& number, DType dtype) {
    return {.data = number.data(),
            .dtype = dtype,
            .element_size = dtype_size(dtype),
            .shape = {},
            .strides = {}};
  }
  void add_array(const KeyPath& path, ArrayView view) {
    sources_.push_back({.key = tensorflow_key(path), .dtype = view.dtype, .shape = view.shape});
    views_.push_back(std::move(view));
  }
  void add_string(const KeyPath& path, std::string value) {
    TensorFlowSource& source = sources_.emplace_back();
    source.key = tensorflow_key(path);
    source.dtype = TensorType("string", 0);
    source.strings.push_back(std::move(value));
    views_.emplace_back();
  }

  std::vector<TensorFlowSource> sources_;
  std::vector<ArrayView> views_;  // empty for strings
  std::deque<std::array<std::byte, 16>> numbers_;
};

}  // namespace

std::vector<std::string> write_tensorflow(const std::string& prefix, const Tree& tree,
                                          const TensorFlowWriteOptions& options) {
  Leaves leaves;
  for (const TreeEntry& entry : flatten(tree)) leaves.add(entry.path, entry.value);
  return write_tensorflow(prefix, std::move(leaves.sources()), fetch_from(leaves.views()), options);
}

}  // namespace cairn::inline v0
