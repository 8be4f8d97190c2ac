// registry.cc -- chooses the handler of a leaf.
#include <cairn/base/observer/observe.h>
#include <cairn/error.h>
#include <cairn/handlers/demangle.h>
#include <cairn/orbax/handlers.h>

#include <algorithm>
#include <array>
#include <complex>
#include <type_traits>

namespace cairn::inline v0 {
namespace {

// Readable names of leaf types, for messages.
std::string type_text(std::type_index type) {
  const std::array<std::pair<std::type_index, const char*>, 12> kNames = {
      {{typeid(bool), "bool"},
       {typeid(std::int64_t), "int"},
       {typeid(std::uint64_t), "int"},
       {typeid(double), "float"},
       {typeid(std::complex<double>), "complex"},
       {typeid(NumpyScalar), "NumPy scalar"},
       {typeid(std::string), "str"},
       {typeid(Bytes), "bytes"},
       {typeid(Array), "array"},
       {typeid(ShardedArray), "sharded array"},
       {typeid(ShapeDtypeStruct), "ShapeDtypeStruct"},
       {typeid(Placeholder), "placeholder"}}};
  const auto it = std::find_if(kNames.begin(), kNames.end(),
                               [&](const auto& entry) { return entry.first == type; });
  return it == kNames.end() ? demangled_name(type) : it->second;
}

// Accepts the type. std::int64_t stands for Python's int, of which bool is a kind.
TypeHandlerRegistry::Predicate accepts_type(std::type_index type) {
  if (type != typeid(std::int64_t)) return [type](std::type_index other) { return other == type; };
  return [](std::type_index other) {
    return other == typeid(std::int64_t) || other == typeid(std::uint64_t) || other == typeid(bool);
  };
}

}  // namespace

std::type_index leaf_type(const Tree& leaf) {
  return std::visit(
      [](const auto& value) -> std::type_index {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, CustomLeaf>) {
          return value.type();
        } else if constexpr (std::is_same_v<T, EmptyNode> || std::is_same_v<T, Tree::List> ||
                             std::is_same_v<T, Tree::Dict> || std::is_same_v<T, Tree::Tuple> ||
                             std::is_same_v<T, Tree::NamedTuple>) {
          throw Error(Code::kInvalidArgument,
                      "containers and empty nodes are structure, not leaves with a type");
        } else {
          return typeid(T);
        }
      },
      leaf.value());
}

std::string ParamInfo::path() const {
  if (name.empty() || parent_dir.empty())
    throw Error(Code::kInvalidArgument,
                parent_dir.empty()
                    ? "the leaf '" + name + "' has no path: its parent_dir is not set"
                    : "a leaf in " + parent_dir + " has no path: its name is not set");
  return parent_dir + "/" + name;
}

void check_input_arguments(std::initializer_list<std::size_t> lengths) {
  for (auto it = lengths.begin(); it != lengths.end(); ++it) {
    if (*it == 0 && it + 1 != lengths.end())
      throw Error(Code::kInvalidArgument, "a type handler was called for no leaves");
    if (*it != *lengths.begin())
      throw Error(Code::kInvalidArgument, "a type handler was given " +
                                              std::to_string(*lengths.begin()) +
                                              " entries in one list and " + std::to_string(*it) +
                                              " in another; the lists must have the same length");
  }
}

const TypeHandlerPtr* TypeHandlerRegistry::find(std::type_index type) const {
  const auto it = std::find_if(by_type_.begin(), by_type_.end(),
                               [&](const auto& entry) { return entry.first(type); });
  return it == by_type_.end() ? nullptr : &it->second;
}

void TypeHandlerRegistry::add(std::type_index type, TypeHandlerPtr handler, AddOptions options) {
  if (handler == nullptr)
    throw Error(Code::kInvalidArgument, "no handler was given for the type " + type_text(type));
  Predicate accepts = options.accepts ? std::move(options.accepts) : accepts_type(type);
  const std::string typestr = handler->typestr();
  const auto it = std::find_if(by_type_.begin(), by_type_.end(),
                               [&](const auto& entry) { return entry.first(type); });
  if (it != by_type_.end()) {
    if (!options.override_existing)
      throw Error(Code::kInvalidArgument, "a handler is already registered for the type " +
                                              type_text(type) + " ('" + it->second->typestr() +
                                              "'); override it to replace it");
    observe(options.observer, EventLevel::kWarning, "registry.handler_replaced",
            {{"type", type_text(type)}, {"typestr", typestr}});
    *it = {std::move(accepts), handler};
  } else {
    if (!options.override_existing && by_typestr_.contains(typestr))
      throw Error(Code::kInvalidArgument,
                  "the handler of the type " + type_text(type) + " has the typestr '" + typestr +
                      "', which another handler has already; a typestr names one kind of leaf");
    if (by_typestr_.contains(typestr))
      observe(options.observer, EventLevel::kWarning, "registry.typestr_replaced",
              {{"type", type_text(type)}, {"typestr", typestr}});
    by_type_.emplace_back(std::move(accepts), handler);
  }
  by_typestr_[typestr] = std::move(handler);
}

TypeHandlerPtr TypeHandlerRegistry::get(std::type_index type) const {
  if (const TypeHandlerPtr* handler = find(type)) return *handler;
  throw Error(Code::kInvalidArgument,
              "no type handler is registered for the type " + type_text(type));
}

TypeHandlerPtr TypeHandlerRegistry::get(std::string_view typestr) const {
  if (const auto it = by_typestr_.find(typestr); it != by_typestr_.end()) return it->second;
  throw Error(Code::kInvalidArgument,
              "no type handler is registered for the typestr '" + std::string(typestr) + "'");
}

bool TypeHandlerRegistry::has(std::type_index type) const { return find(type) != nullptr; }
bool TypeHandlerRegistry::has(std::string_view typestr) const {
  return by_typestr_.contains(typestr);
}

std::vector<TypeHandlerPtr> TypeHandlerRegistry::handlers() const {
  std::vector<TypeHandlerPtr> all;
  const auto add = [&](const TypeHandlerPtr& handler) {
    if (std::find(all.begin(), all.end(), handler) == all.end()) all.push_back(handler);
  };
  for (const auto& entry : by_type_) add(entry.second);
  for (const auto& [typestr, handler] : by_typestr_) add(handler);
  return all;
}

namespace {

void add_numeric(TypeHandlerRegistry& registry, const StandardHandlerOptions& options) {
  const auto scalar = std::make_shared<ScalarHandler>(options.scalar);
  for (const std::type_index type :
       {std::type_index(typeid(std::int64_t)), std::type_index(typeid(double)),
        std::type_index(typeid(Bytes)), std::type_index(typeid(NumpyScalar))})
    registry.add(type, scalar, {nullptr, true, options.observer});
  registry.add(typeid(Array), std::make_shared<NumpyHandler>(options.numpy),
               {nullptr, true, options.observer});
  registry.add(typeid(ShardedArray), std::make_shared<ArrayHandler>(options.array),
               {nullptr, true, options.observer});
}

}  // namespace

TypeHandlerRegistry standard_type_handlers() {
  TypeHandlerRegistry registry;
  add_numeric(registry, {});
  registry.add(typeid(std::string), std::make_shared<StringHandler>());
  registry.add(typeid(Placeholder), std::make_shared<PlaceholderHandler>());
  return registry;
}

TypeHandlerRegistry& default_type_handler_registry() {
  static TypeHandlerRegistry registry = standard_type_handlers();
  return registry;
}

void register_standard_handlers_with_options(const StandardHandlerOptions& options) {
  add_numeric(default_type_handler_registry(), options);
}

std::vector<std::type_index> supported_types() {
  return {typeid(std::int64_t), typeid(double),       typeid(Bytes),       typeid(NumpyScalar),
          typeid(Array),        typeid(ShardedArray), typeid(std::string), typeid(Placeholder)};
}

std::string_view default_restore_type(const AnyRestoreArgs& args) {
  return array_restore_args(args) != nullptr ? "jax.Array" : "np.ndarray";
}

}  // namespace cairn::inline v0
