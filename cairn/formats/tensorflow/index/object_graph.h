// object_graph.h -- TensorFlow's TrackableObjectGraph: which object of the program each tensor of a
// checkpoint belongs to.
//
// A checkpoint that objects wrote holds it as the string kObjectGraphKey. Edges may form cycles,
// and several may lead to one node.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

inline constexpr std::string_view kObjectGraphKey = "_CHECKPOINTABLE_OBJECT_GRAPH";
// What a variable's only attribute is called, and how its key ends.
inline constexpr std::string_view kVariableAttribute = "VARIABLE_VALUE";
inline constexpr std::string_view kVariableSuffix = "/.ATTRIBUTES/VARIABLE_VALUE";

// In keys of what an optimizer keeps for a variable:
// "<variable>/.OPTIMIZER_SLOT/<optimizer>/<slot>/.ATTRIBUTES/VARIABLE_VALUE".
inline constexpr std::string_view kSlotStep = ".OPTIMIZER_SLOT";
// What a path ends with whose key has others behind it (bundle_names.h).
inline constexpr std::string_view kAttributesStep = ".ATTRIBUTES";

// TrackableObject.
struct TrackableNode {
  struct Child {
    std::uint32_t node = 0;
    std::string name;  // not escaped
    bool operator==(const Child&) const = default;
  };
  struct Attribute {
    std::string name;
    std::string full_name;       // of the variable in the program; may be empty
    std::string checkpoint_key;  // of its tensor; of some objects only how their keys begin
    bool operator==(const Attribute&) const = default;
  };
  // What an optimizer keeps for a variable.
  struct Slot {
    std::uint32_t variable = 0;  // node of the variable
    std::string name;            // "m"
    std::uint32_t node = 0;      // node of what is kept; often nobody's child
    bool operator==(const Slot&) const = default;
  };
  struct Saver {
    std::string name;
    std::string object_name;
    bool operator==(const Saver&) const = default;
  };
  std::vector<Child> children;
  std::vector<Attribute> attributes;
  std::vector<Slot> slots;
  std::optional<Saver> saver;      // registered_saver
  std::optional<bool> has_values;  // has_checkpoint_values
  bool operator==(const TrackableNode&) const = default;
};

// By number; 0 is the root.
using ObjectGraph = std::vector<TrackableNode>;

// Throws data_loss for what is no such message, and for edges to nodes that are not there. Fields
// that are not known are passed over.
ObjectGraph parse_object_graph(ByteView bytes);
// Byte for byte what TensorFlow writes.
Bytes encode_object_graph(const ObjectGraph& graph);

// One step of a key: '.' becomes "..", then '/' becomes ".S"; and back ("a.Sb..c" is "a/b.c").
std::string escape_trackable(std::string_view name);
std::string unescape_trackable(std::string_view name);

}  // namespace cairn
