// construct_restore_args.cc -- derives the arguments of a restore from its target.
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <cairn/base/errors.h>
#include <cairn/orbax/sharding.h>

#include <complex>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>

namespace cairn::inline v0 {
namespace {

Tree array_args(const Shape& shape, DType dtype, const Sharding& sharding) {
  ArrayRestoreArgs args;
  args.sharding = sharding;
  args.global_shape = shape;
  args.dtype = dtype;
  return Tree(args);
}

Tree host_args(RestoreType type, std::optional<DType> dtype = std::nullopt) {
  return Tree(RestoreArgs{.restore_type = std::move(type), .dtype = dtype});
}

// Of the leaves that a number becomes.
RestoreType number_type(DType dtype) {
  const std::string_view name = dtype_name(dtype);
  if (name == "bool") return std::type_index(typeid(bool));
  if (name.starts_with("complex")) return std::type_index(typeid(std::complex<double>));
  if (name.starts_with("int") || name.starts_with("uint"))
    return std::type_index(typeid(std::int64_t));
  return std::type_index(typeid(double));
}

// Of the metadata that PyTreeCheckpointHandler::metadata() returns.
Tree args_of(const KeyPath& path, const ValueMetadata& leaf) {
  if (leaf.typestr == "string") return host_args("string");
  if (!leaf.dtype || !leaf.shape)
    invalid_argument("the metadata of the leaf " + path_text(path) + " lack its dtype or shape");
  if (leaf.typestr == "scalar") return host_args(number_type(*leaf.dtype), leaf.dtype);
  if (!leaf.sharding) return host_args("np.ndarray", leaf.dtype);
  return array_args(*leaf.shape, *leaf.dtype, *leaf.sharding);
}

Tree args_of(const KeyPath& path, const Tree& leaf) {
  if (std::holds_alternative<EmptyNode>(leaf.value())) return leaf;
  if (std::holds_alternative<Placeholder>(leaf.value())) return Tree(RestoreArgs{});
  if (const auto* array = leaf.custom<ShardedArray>())
    return array_args(array->shape, array->dtype, array->sharding);
  if (const auto* wanted = leaf.custom<ShapeDtypeStruct>())
    return wanted->sharding ? array_args(wanted->shape, wanted->dtype, *wanted->sharding)
                            : host_args("np.ndarray", wanted->dtype);
  if (const auto* metadata = leaf.custom<ValueMetadata>()) return args_of(path, *metadata);
  if (const Array* array = leaf.array()) return host_args("np.ndarray", array->dtype());
  if (std::holds_alternative<bool>(leaf.value())) return host_args(number_type(DType::kBool));
  if (std::holds_alternative<std::int64_t>(leaf.value()) ||
      std::holds_alternative<std::uint64_t>(leaf.value()))
    return host_args(number_type(DType::kInt64));
  if (std::holds_alternative<double>(leaf.value())) return host_args(number_type(DType::kFloat64));
  if (std::holds_alternative<std::string>(leaf.value())) return host_args("string");
  invalid_argument("the leaf " + path_text(path) + " is not an array, a number or a string");
}

}  // namespace

Tree construct_restore_args(const Tree& target) {
  return map_leaves(target,
                    [](const KeyPath& path, const Tree& leaf) { return args_of(path, leaf); });
}

}  // namespace cairn::inline v0
