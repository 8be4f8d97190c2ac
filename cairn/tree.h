// tree.h -- the pytree: nested dicts and sequences whose leaves are arrays, scalars and strings; and its key paths.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>

#include <cstdint>
#include <string>
#include <string_view>
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
// Sorts as Orbax rebuilds trees: sequence keys as integers, others bytewise; a prefix before what extends it.
bool key_path_less(const KeyPath& a, const KeyPath& b);

// What stands where a container has no children. kNone also stands for Python's None.
enum class EmptyNode : std::uint8_t { kNone, kDict, kList, kTuple, kNamedTuple };
std::string_view empty_node_name(EmptyNode node);  // "None", "Dict", "List", "Tuple", "NamedTuple"

// A leaf that was saved as Ellipsis: structure without data.
struct Placeholder {
  bool operator==(const Placeholder&) const = default;
};

// A leaf, an empty node, or a container of trees. Dicts keep the order in which they were built.
class Tree {
 public:
  using Dict = std::vector<std::pair<std::string, Tree>>;
  using List = std::vector<Tree>;
  // Scalars: Python bool, int and float. Text: str. Array: everything with a dtype.
  using Value = std::variant<EmptyNode, Placeholder, bool, std::int64_t, std::uint64_t, double, std::string, Array, List, Dict>;

  Tree() = default;                                // None
  Tree(Value value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] const Value& value() const { return value_; }
  [[nodiscard]] Value& value() { return value_; }
  [[nodiscard]] const Dict* dict() const { return std::get_if<Dict>(&value_); }
  [[nodiscard]] const List* list() const { return std::get_if<List>(&value_); }
  [[nodiscard]] const Array* array() const { return std::get_if<Array>(&value_); }
  // The child or nullptr. For a list, `key` is a decimal index.
  [[nodiscard]] const Tree* find(std::string_view key) const;

 private:
  Value value_ = EmptyNode::kNone;
};

// One leaf (or empty node) and how to reach it.
struct TreeEntry {
  KeyPath path;
  Tree value;
};

// Depth first; dict members in their order; empty nodes included.
std::vector<TreeEntry> flatten(const Tree& tree);
// The reverse: a dict for every kDict level and a list for every kSequence level. Entries in any order; an entry whose
// path is a proper prefix of another one is dropped (an artefact of partial saves). List indices are filled in order
// and need not be gapless. Throws data_loss if one level mixes both key types, invalid_argument for a duplicate path.
Tree unflatten(std::vector<TreeEntry> entries);

}  // namespace cairn
