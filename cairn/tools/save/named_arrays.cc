// named_arrays.cc -- turns the leaves of a tree into arrays.
#include <cairn/tools/save/named_arrays.h>

#include <cairn/error.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree/leaf_value.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace cairn::inline v0 {
namespace {

template <class T>
Array array_of_number(T value) {
  return Array::from<T>({value}, {});
}

Array array_of_leaf(const Tree& leaf) {
  if (const auto* array = leaf.array()) return *array;
  if (const auto* sharded = leaf.custom<ShardedArray>()) return gather_shards(*sharded);
  if (const auto* scalar = std::get_if<NumpyScalar>(&leaf.value())) return array_of(*scalar);
  if (const auto* value = std::get_if<bool>(&leaf.value())) return array_of_number(*value);
  if (const auto* value = std::get_if<std::int64_t>(&leaf.value())) return array_of_number(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&leaf.value())) return array_of_number(*value);
  if (const auto* value = std::get_if<double>(&leaf.value())) return array_of_number(*value);
  throw Error(Code::kInvalidArgument,
              "the format holds arrays and numbers; leave this leaf out, or save as Orbax");
}

}  // namespace

NamedArrays::NamedArrays(const Tree& tree) {
  for (const TreeEntry& entry : flatten(tree)) {
    const auto* empty = std::get_if<EmptyNode>(&entry.value.value());
    if (empty != nullptr && *empty != EmptyNode::kNone) continue;
    const std::string name = param_name(entry.path);
    const Array& array = arrays.emplace_back(
        with_context([&] { return name; }, [&] { return array_of_leaf(entry.value); }));
    sources.push_back({.name = name, .dtype = array.dtype(), .shape = array.shape()});
  }
}

FetchFn NamedArrays::fetch() const {
  std::vector<ArrayView> views;
  views.reserve(arrays.size());
  for (const Array& array : arrays) views.push_back(array.view());
  return fetch_from(std::move(views));
}

}  // namespace cairn::inline v0
