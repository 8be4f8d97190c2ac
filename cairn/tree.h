// tree.h -- the pytree: nested dicts and sequences whose leaves are arrays, scalars and strings;
// and its key paths.
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

namespace cairn {

// One step from a node to its child, numbered as `_METADATA` numbers key types.
enum class KeyType : std::uint8_t { kSequence = 1, kDict = 2 };
struct Key {
  std::string text;  // a dict key or field name, or a decimal index
  KeyType type = KeyType::kDict;
  bool operator==(const Key&) const = default;
};
using KeyPath = std::vector<Key>;

// The field's parameter name: key texts joined with '.', nothing escaped; "" for a bare leaf.
std::string param_name(const KeyPath& path);
// "['a'][0]['b']": as JAX prints a path, for messages.
std::string path_text(const KeyPath& path);
// Sorts as Orbax rebuilds trees: sequence keys as integers, others bytewise; a prefix before what
// extends it.
bool key_path_less(const KeyPath& a, const KeyPath& b);

// What stands where a container has no children. kNone also stands for Python's None.
enum class EmptyNode : std::uint8_t { kNone, kDict, kList, kTuple, kNamedTuple };
std::string_view empty_node_name(EmptyNode node);  // "None", "Dict", "List", "Tuple", "NamedTuple"
// The reverse; nullopt for a name that is none of them.
std::optional<EmptyNode> empty_node_from_name(std::string_view name);

// A leaf that was saved as Ellipsis: structure without data.
struct Placeholder {
  bool operator==(const Placeholder&) const = default;
};

// A NumPy scalar, np.float32(1.5): a number with a dtype that is no array.
struct NumpyScalar {
  DType dtype = DType::kFloat64;      // not kOpaque
  std::array<std::byte, 16> value{};  // the first dtype_size(dtype) bytes; the others are zero
  bool operator==(const NumpyScalar&) const = default;
};

// A leaf of any other C++ type: a ShardedArray, or a type of the user's own that a handler is
// registered for (handlers.h). Copies share the value.
class CustomLeaf {
 public:
  template <class T>
  static CustomLeaf of(T value) {
    return {std::make_shared<const T>(std::move(value)), typeid(T)};
  }
  [[nodiscard]] std::type_index type() const { return type_; }
  // The value, which lives as long as this leaf or a copy of it; nullptr if it is of another type.
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

// A leaf, an empty node, or a container of trees. Dicts keep the order in which they were built.
class Tree {
 public:
  using Dict = std::vector<std::pair<std::string, Tree>>;
  using List = std::vector<Tree>;
  struct Tuple {
    std::vector<Tree> items;
  };
  // A Python namedtuple; its type is known by name only.
  struct NamedTuple {
    std::string module;  // "optax._src.transform"
    std::string name;    // "ScaleByAdamState"
    std::vector<std::pair<std::string, Tree>> fields;
  };
  // Numbers without a dtype are Python's bool, int, float and complex; std::string is its str,
  // Bytes its bytes.
  using Value = std::variant<EmptyNode, Placeholder, bool, std::int64_t, std::uint64_t, double,
                             std::complex<double>, NumpyScalar, std::string, Bytes, Array,
                             CustomLeaf, List, Dict, Tuple, NamedTuple>;

  Tree() = default;                                // None
  Tree(Value value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] const Value& value() const { return value_; }
  [[nodiscard]] Value& value() { return value_; }
  [[nodiscard]] const Dict* dict() const { return std::get_if<Dict>(&value_); }
  [[nodiscard]] const List* list() const { return std::get_if<List>(&value_); }
  [[nodiscard]] const Tuple* tuple() const { return std::get_if<Tuple>(&value_); }
  [[nodiscard]] const NamedTuple* named_tuple() const { return std::get_if<NamedTuple>(&value_); }
  [[nodiscard]] const Array* array() const { return std::get_if<Array>(&value_); }
  // The custom leaf's value, if that is what this is and of that type.
  template <class T>
  [[nodiscard]] const T* custom() const {
    const auto* leaf = std::get_if<CustomLeaf>(&value_);
    return leaf == nullptr ? nullptr : leaf->get<T>();
  }
  // The child or nullptr: by key or field name; by decimal index in lists and tuples.
  [[nodiscard]] const Tree* find(std::string_view key) const;

 private:
  Value value_ = EmptyNode::kNone;
};

// One leaf (or empty node) and how to reach it.
struct TreeEntry {
  KeyPath path;
  Tree value;
};

enum class DictOrder : std::uint8_t {
  kBuilt,   // members in the order in which they were put in
  kSorted,  // as JAX flattens: dict keys sorted bytewise, fields of named tuples in theirs
};
// Depth first; empty nodes included, and containers without children as such. Keys of lists and
// tuples are kSequence, of dicts and named tuples kDict. Throws invalid_argument for trees more
// than 1000 levels deep.
std::vector<TreeEntry> flatten(const Tree& tree, DictOrder order = DictOrder::kBuilt);
// The same containers with other leaves: `leaf` is called for each leaf and empty node, in the
// order of flatten.
Tree map_leaves(const Tree& tree, const std::function<Tree(const KeyPath&, const Tree&)>& leaf);
// The reverse: a dict for every kDict level and a list for every kSequence level. Entries in any
// order; an entry whose path is a proper prefix of another one is dropped (an artefact of partial
// saves). List indices are filled in order and need not be gapless. Throws data_loss if one level
// mixes both key types, invalid_argument for a duplicate path.
Tree unflatten(std::vector<TreeEntry> entries);

}  // namespace cairn
