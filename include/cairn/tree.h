// tree.h -- the pytree, its key paths and its structure. A pytree consists of nested dicts and
// sequences whose leaves are arrays, scalars and strings.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>

#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Type of the step from a node to its child. The values are the key types of Orbax's `_METADATA`.
enum class KeyType : std::uint8_t { kSequence = 1, kDict = 2 };
// One step from a node to its child.
struct Key {
  std::string text;  // a dict key, a field name or a decimal index
  KeyType type = KeyType::kDict;
  bool operator==(const Key&) const = default;
};
// The keys from the root to a node.
using KeyPath = std::vector<Key>;

// The parameter name: the keys joined with '.', without escaping; "" for a tree that is one leaf.
std::string param_name(const KeyPath& path);
// The path as JAX prints it: "['a'][0]['b']". Unlike names, texts of different paths differ.
// Messages name leaves by param_name.
std::string path_text(const KeyPath& path);
// Order in which Orbax rebuilds trees: sequence keys compare as integers, other keys bytewise; a
// prefix precedes the paths that extend it.
bool key_path_less(const KeyPath& a, const KeyPath& b);

// A container without children. kNone also represents Python's None.
enum class EmptyNode : std::uint8_t { kNone, kDict, kList, kTuple, kNamedTuple };
std::string_view empty_node_name(EmptyNode node);  // "None", "Dict", "List", "Tuple", "NamedTuple"
// Inverse of empty_node_name; nullopt for an unknown name.
std::optional<EmptyNode> empty_node_from_name(std::string_view name);

// A leaf that was saved as Python's Ellipsis: structure without data.
struct Placeholder {
  bool operator==(const Placeholder&) const = default;
};

class Tree;

// A NumPy scalar such as np.float32(1.5): a number with a dtype that is not an array.
struct NumpyScalar {
  DType dtype = DType::kFloat64;      // any type but kOpaque
  std::array<std::byte, 16> value{};  // first dtype_size(dtype) bytes: the value; others: zero
  bool operator==(const NumpyScalar&) const = default;
};

// A leaf of any other C++ type: a ShardedArray, SaveArgs, or a user's type for which a handler is
// registered (orbax/handlers.h). Copies share the value.
class CustomLeaf {
 public:
  // Makes a leaf that owns `value`.
  template <class T>
  static CustomLeaf of(T value) {
    Equal equal = nullptr;
    if constexpr (std::equality_comparable<T>)
      equal = [](const void* a, const void* b) {
        return *static_cast<const T*>(a) == *static_cast<const T*>(b);
      };
    return {std::make_shared<const T>(std::move(value)), typeid(T), equal};
  }
  [[nodiscard]] std::type_index type() const { return type_; }  // typeid of the value
  // The value, or nullptr if it is of another type. It lives as long as this leaf or a copy of it.
  template <class T>
  [[nodiscard]] const T* get() const {
    return type_ == typeid(T) ? static_cast<const T*>(value_.get()) : nullptr;
  }
  // Whether both hold equal values of one type. Values of a type without == are equal if they are
  // one value, which copies of a leaf share.
  bool operator==(const CustomLeaf& other) const {
    return value_ == other.value_ ||
           (type_ == other.type_ && equal_ != nullptr && equal_(value_.get(), other.value_.get()));
  }

 private:
  using Equal = bool (*)(const void*, const void*);
  CustomLeaf(std::shared_ptr<const void> value, std::type_index type, Equal equal)
      : value_(std::move(value)), type_(type), equal_(equal) {}
  std::shared_ptr<const void> value_;
  std::type_index type_;
  Equal equal_;  // null: the type has no ==
};

// Whether a Tree can be made of a value: see Tree's constructor.
namespace tree_values {
template <class T, class Variant>
inline constexpr bool kIsOneOf = false;
template <class T, class... Types>
inline constexpr bool kIsOneOf<T, std::variant<Types...>> = (std::is_same_v<T, Types> || ...);

template <class T>
concept Container = requires {
  typename T::value_type;
};
template <class T>
concept Pointer = requires {
  typename T::element_type;
};
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept Variant = requires {
  std::variant_size<T>::value;
};
// A class whose values become custom leaves. A standard container, optional, smart pointer, tuple
// or variant is rather a mistake.
template <class T>
concept CustomClass =
    std::is_class_v<T> && !Container<T> && !Pointer<T> && !TupleLike<T> && !Variant<T>;
// A container that no Tree can hold.
template <class T, class Value>
concept Foreign = Container<T> && requires(const T& values) {
  values.begin();
} && !kIsOneOf<T, Value> && !std::derived_from<T, Array> &&
    !std::is_convertible_v<const T&, std::string_view>;
template <class T, class Value>
concept Source = !std::same_as<T, Tree> && !std::same_as<T, Value> &&
                 (kIsOneOf<T, Value> || std::is_arithmetic_v<T> ||
                  std::is_convertible_v<const T&, std::string_view> ||
                  std::derived_from<T, Array> || CustomClass<T>);
}  // namespace tree_values

// A leaf, an empty node, or a container of trees. Dicts keep their insertion order.
class Tree {
 public:
  using Dict = std::vector<std::pair<std::string, Tree>>;  // members in order
  using List = std::vector<Tree>;
  // A Python tuple.
  struct Tuple {
    std::vector<Tree> items;
  };
  // A Python namedtuple. Cairn stores its type by name only.
  struct NamedTuple {
    std::string module;  // "optax._src.transform"
    std::string name;    // "ScaleByAdamState"
    std::vector<std::pair<std::string, Tree>> fields;
  };
  // bool, std::int64_t, std::uint64_t, double and std::complex<double> are Python's bool, int,
  // float and complex; std::string is its str, Bytes its bytes.
  using Value = std::variant<EmptyNode, Placeholder, bool, std::int64_t, std::uint64_t, double,
                             std::complex<double>, NumpyScalar, std::string, Bytes, Array,
                             CustomLeaf, List, Dict, Tuple, NamedTuple>;

  Tree() noexcept;    // None
  Tree(Value value);  // NOLINT(google-explicit-constructor)
  // Defined in the library: a program that includes this header need not compile them.
  Tree(const Tree& other);
  Tree(Tree&& other) noexcept;
  Tree& operator=(const Tree& other);
  Tree& operator=(Tree&& other) noexcept;
  ~Tree();
  // A dict: Tree{{"step", 7}, {"params", {{"w", array}, {"b", array}}}}.
  Tree(std::initializer_list<std::pair<std::string, Tree>> members);
  // A tree of any type of Value, a number of any C++ type, text, or a custom leaf of a class: the
  // values in Tree{{"w", array}, {"step", 3}, {"name", "adam"}, {"v", SaveArgs{}}}. Explicit for a
  // list: List{list} shall copy the list, not make a list with one list in it.
  // NOLINTBEGIN(google-explicit-constructor,bugprone-forwarding-reference-overload)
  template <class T, class = std::enable_if_t<tree_values::Source<std::remove_cvref_t<T>, Value>>>
  explicit(std::same_as<std::remove_cvref_t<T>, List>) Tree(T&& value)
      : Tree(to_value(std::forward<T>(value))) {}
  // A container of numbers: does not compile, and says what to write instead.
  template <class T, class = std::enable_if_t<tree_values::Foreign<std::remove_cvref_t<T>, Value>>,
            class = void>
  Tree(T&& /*value*/) {
    static_assert(
        std::is_same_v<T, void>,
        "a container is not a leaf of a cairn::Tree: write Array::from(values, shape), or "
        "Tree::List for a list of trees");
  }
  // NOLINTEND(google-explicit-constructor,bugprone-forwarding-reference-overload)

  [[nodiscard]] const Value& value() const { return value_; }
  [[nodiscard]] Value& value() { return value_; }
  // The accessors below return nullptr if the node is of another type.
  [[nodiscard]] const Dict* dict() const { return std::get_if<Dict>(&value_); }
  [[nodiscard]] const List* list() const { return std::get_if<List>(&value_); }
  [[nodiscard]] const Tuple* tuple() const { return std::get_if<Tuple>(&value_); }
  [[nodiscard]] const NamedTuple* named_tuple() const { return std::get_if<NamedTuple>(&value_); }
  [[nodiscard]] const Array* array() const { return std::get_if<Array>(&value_); }
  // The custom leaf's value, or nullptr if the node is not a custom leaf of type T.
  template <class T>
  [[nodiscard]] const T* custom() const {
    const auto* leaf = std::get_if<CustomLeaf>(&value_);
    return leaf == nullptr ? nullptr : leaf->get<T>();
  }
  // The child or nullptr: by key in dicts, by field name in named tuples, by decimal index in lists
  // and tuples.
  [[nodiscard]] const Tree* find(std::string_view key) const;
  // The node below the keys, joined with '.' or '/': at("params.layers.0"), at("params/layers/0").
  // Where keys contain these characters and several nodes fit, the one with the longest first key
  // is returned; find() takes one key as it is. "" is the key "", not this node. Throws not_found
  // with the keys that there are.
  [[nodiscard]] const Tree& at(std::string_view keys) const;

  // Whether both have one structure and equal leaves. The order of the members of a dict does not
  // count. An empty container equals its EmptyNode. Numbers are equal if their types and their bits
  // are (7 is not 7.0, a NaN equals itself), arrays and custom leaves as their == says. Throws
  // invalid_argument for a tree more than 1000 levels deep.
  bool operator==(const Tree& other) const;

 private:
  template <class T>
  static Value to_value(T&& value) {
    using Plain = std::remove_cvref_t<T>;
    if constexpr (tree_values::kIsOneOf<Plain, Value>)
      return Value(std::in_place_type<Plain>, std::forward<T>(value));
    else if constexpr (std::is_integral_v<Plain>)
      return static_cast<std::conditional_t<std::is_signed_v<Plain>, std::int64_t, std::uint64_t>>(
          value);
    else if constexpr (std::is_floating_point_v<Plain>)
      return static_cast<double>(value);
    else if constexpr (std::derived_from<Plain, Array>)
      return Array(std::forward<T>(value));
    else if constexpr (std::is_convertible_v<const Plain&, std::string_view>)
      return std::string(std::string_view(value));
    else
      return CustomLeaf::of(Plain(std::forward<T>(value)));
  }

  Value value_;  // at first EmptyNode::kNone, the first value of the first type
};

// The types that the keys of a dict have in Python, where they are not all str. A Tree has their
// text. Orbax does not record them; Cairn records them beside the tree (SaveOptions::key_types).
struct DictKeyTypes {
  std::vector<std::string> dict;  // the keys from the root to the dict, as text
  // The type of all keys, by Python's name: "int", "bool", "float", "NoneType", "tuple", ... Also
  // "str", for keys that are text but look like an int. "" if the keys have several types.
  std::string type = {};
  // (key, type) for each key, if they have several types; else empty.
  std::vector<std::pair<std::string, std::string>> types = {};
  bool operator==(const DictKeyTypes&) const = default;
};

// One leaf (or empty node) and its path.
struct TreeEntry {
  KeyPath path;
  Tree value;
};

// Order in which flatten visits the members of a dict.
enum class DictOrder : std::uint8_t {
  kBuilt,  // in insertion order
  // As JAX flattens: dict keys sorted bytewise; fields of named tuples keep their order.
  kSorted,
};
// All leaves and empty nodes, depth first. A container without children is returned as its empty
// node. Keys of lists and tuples are kSequence, keys of dicts and named tuples kDict. Throws
// invalid_argument for a tree more than 1000 levels deep.
std::vector<TreeEntry> flatten(const Tree& tree, DictOrder order = DictOrder::kBuilt);
// A copy of the tree with other leaves. `leaf` is called for each leaf and empty node, in the order
// of flatten, and returns its replacement. Throws as flatten.
Tree map_leaves(const Tree& tree, const std::function<Tree(const KeyPath&, const Tree&)>& leaf);
// Inverse of flatten: builds a dict for every kDict level and a list for every kSequence level.
// Entries may come in any order. An entry whose path is a proper prefix of another path is dropped
// (an artefact of partial saves). List items are ordered by index; gaps between indices are closed.
//
// Throws data_loss if one level mixes both key types or a path has more than 1000 keys,
// invalid_argument for a duplicate path and for an empty list of entries.
Tree unflatten(std::vector<TreeEntry> entries);

// ---- comparing structures, and filling a target ----

// The tree in stored form, as checkpoints record structure: tuples become lists, named tuples
// become dicts. Leaves and empty nodes stay unchanged.
Tree as_stored(const Tree& tree);

// How closely a source must match its target.
enum class MatchMode : std::uint8_t {
  kExact,  // source and target have the same structure
  // Keys that the target lacks are dropped; if the target has None in place of a dict, all of the
  // dict's keys are. Keys that the source lacks keep the target's value.
  kPartial,
};

// One difference between two trees, and what each of them has there: "a leaf", "a dict of 3", "an
// empty List", "nothing".
struct StructureDifference {
  KeyPath path;                // in stored form
  std::string source, target;  // what each tree has there
};

// Every difference that prevents `source` (the stored tree) from being restored into `target`. Both
// are compared in stored form and by structure only: any leaf matches any leaf, and an empty node
// matches a leaf. A Placeholder of the target may be absent from the source. With kPartial, lists
// must still have the same length, and an empty node of the target counts as a leaf, so it does not
// match a container. Throws invalid_argument for a tree more than 1000 levels deep.
std::vector<StructureDifference> structure_differences(const Tree& source, const Tree& target,
                                                       MatchMode fit = MatchMode::kExact);

// Paths of the target's leaves to read from the source, in the order of flatten(target): all that
// the source has, without empty nodes and, with kExact, without placeholders. The paths are valid
// in both trees. Throws invalid_argument that lists every difference; with kExact the message
// mentions partial_restore.
std::vector<KeyPath> plan_restore(const Tree& source, const Tree& target,
                                  MatchMode fit = MatchMode::kExact);

// The target with the values of `restored` in place of the leaves with the same paths. All other
// leaves, the empty nodes and the container types are the target's. Throws invalid_argument for an
// entry that is not a leaf of the target.
Tree fill_target(const Tree& target, std::vector<TreeEntry> restored);

// plan_restore and fill_target in one step, for a source in memory.
Tree restore_into(const Tree& target, const Tree& source, MatchMode fit = MatchMode::kExact);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
