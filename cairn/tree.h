// tree.h -- the pytree and its key paths. A pytree consists of nested dicts and sequences whose
// leaves are arrays, scalars and strings.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
// The path as JAX prints it, for messages: "['a'][0]['b']".
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

// A NumPy scalar such as np.float32(1.5): a number with a dtype that is not an array.
struct NumpyScalar {
  DType dtype = DType::kFloat64;      // any type but kOpaque
  std::array<std::byte, 16> value{};  // first dtype_size(dtype) bytes: the value; others: zero
  bool operator==(const NumpyScalar&) const = default;
};

// A leaf of any other C++ type: a ShardedArray, or a user's type for which a handler is registered
// (handlers.h). Copies share the value.
class CustomLeaf {
 public:
  // Makes a leaf that owns `value`.
  template <class T>
  static CustomLeaf of(T value) {
    return {std::make_shared<const T>(std::move(value)), typeid(T)};
  }
  [[nodiscard]] std::type_index type() const { return type_; }  // typeid of the value
  // The value, or nullptr if it is of another type. It lives as long as this leaf or a copy of it.
  template <class T>
  [[nodiscard]] const T* get() const {
    return type_ == typeid(T) ? static_cast<const T*>(value_.get()) : nullptr;
  }

 private:
  CustomLeaf(std::shared_ptr<const void> value, std::type_index type)
      : value_(std::move(value)), type_(type) {}
  std::shared_ptr<const void> value_;
  std::type_index type_;
};

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

  Tree() = default;                                // None
  Tree(Value value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

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

 private:
  Value value_ = EmptyNode::kNone;
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

}  // namespace cairn::inline v0
#pragma GCC visibility pop
