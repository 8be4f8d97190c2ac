// leaf_value.cc -- converts leaves to the values that Orbax, flax and msgpack restore.
#include <cairn/tree/leaf_value.h>

#include <cairn/tree/python_number.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace cairn::inline v0 {
namespace {

Tree numpy_scalar(const Array& array) {
  NumpyScalar scalar{.dtype = array.dtype()};
  std::copy(array.bytes().begin(), array.bytes().end(), scalar.value.begin());
  return Tree(scalar);
}

// A non-empty array of strings becomes a list of strings, or nested lists.
Tree nested_strings(std::span<const std::int64_t> shape, std::vector<std::string>::iterator& next) {
  if (shape.empty()) return Tree(std::move(*next++));
  Tree::List list;
  for (std::int64_t i = 0; i < shape[0]; ++i)
    list.push_back(nested_strings(shape.subspan(1), next));
  return Tree(std::move(list));
}

Tree number_list(const TensorInfo& tensor, const Array& array) {
  const std::size_t size = array.element_size();
  Tree::List list;
  list.reserve(array.bytes().size() / size);
  for (std::size_t at = 0; at < array.bytes().size(); at += size)
    list.push_back(
        python_number(Array(array.dtype(), size, {}, array.owner(), array.bytes().data() + at)));
  if (tensor.typestr == kTupleOfNumbers) return Tree(Tree::Tuple{std::move(list)});
  return Tree(std::move(list));
}

}  // namespace

bool is_number_list(const TensorInfo& tensor) {
  return (tensor.typestr == kListOfNumbers || tensor.typestr == kTupleOfNumbers) &&
         tensor.shape.size() == 1 && tensor.dtype != DType::kOpaque;
}

void check_readable(const std::string& name, const TensorInfo& tensor) {
  if (tensor.error.empty()) return;
  // What is recorded and not there is lost. A name that no file can have is damage, too: the caller
  // has not chosen it.
  const bool is_damage =
      tensor.error_code == Code::kNotFound || tensor.error_code == Code::kInvalidArgument;
  const Code code = is_damage ? Code::kDataLoss : tensor.error_code;
  throw Error(code, name.empty() ? tensor.error : name + ": " + tensor.error);
}

bool is_scalar_leaf(const TensorInfo& tensor) {
  const bool scalar =
      tensor.typestr == "scalar" || tensor.typestr == "complex" || tensor.typestr == "np.generic";
  return scalar && tensor.shape.empty() && tensor.dtype != DType::kOpaque;
}

Tree empty_leaf(std::string_view kind) {
  if (kind == "placeholder") return Tree(Placeholder{});
  return Tree(empty_node_from_name(kind).value_or(EmptyNode::kNone));
}

Tree array_leaf(const TensorInfo& tensor, Array array) {
  if (is_scalar_leaf(tensor))
    return tensor.typestr == "np.generic" ? numpy_scalar(array) : python_number(array);
  if (is_number_list(tensor)) return number_list(tensor, array);
  if (tensor.typestr == "bytes") return Tree(Bytes(array.bytes().begin(), array.bytes().end()));
  return Tree(std::move(array));
}

Tree strings_leaf(const TensorInfo& tensor, std::vector<std::string> strings) {
  if (element_count(tensor.shape) == 0) return Tree(EmptyNode::kList);
  auto next = strings.begin();
  return nested_strings(tensor.shape, next);
}

Array array_of(const NumpyScalar& scalar) {
  Array array = Array::allocate(scalar.dtype, {});
  std::memcpy(array.mutable_view().data, scalar.value.data(), dtype_size(scalar.dtype));
  return array;
}

}  // namespace cairn::inline v0
