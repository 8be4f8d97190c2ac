// object_graph.h -- TensorFlow's TrackableObjectGraph: it maps the tensors of a checkpoint to the
// objects of the program that saved them.
//
// An object-based checkpoint stores the graph as the string kObjectGraphKey. Edges may form cycles,
// and several edges may lead to one node.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

inline constexpr std::string_view kObjectGraphKey = "_CHECKPOINTABLE_OBJECT_GRAPH";
// The name of a variable's only attribute, and the end of its key.
inline constexpr std::string_view kVariableAttribute = "VARIABLE_VALUE";
inline constexpr std::string_view kVariableSuffix = "/.ATTRIBUTES/VARIABLE_VALUE";

// A step in the keys of optimizer slots, the values that an optimizer keeps for a variable:
// "<variable>/.OPTIMIZER_SLOT/<optimizer>/<slot>/.ATTRIBUTES/VARIABLE_VALUE".
inline constexpr std::string_view kSlotStep = ".OPTIMIZER_SLOT";
// The step that ends the path of a key if other keys continue it (bundle_names.h).
inline constexpr std::string_view kAttributesStep = ".ATTRIBUTES";

// TensorFlow's message TrackableObject.
struct TrackableNode {
  // An edge to another object.
  struct Child {
    std::uint32_t node = 0;
    std::string name;  // not escaped
    bool operator==(const Child&) const = default;
  };
  // A tensor of the object.
  struct Attribute {
    std::string name;
    std::string full_name;       // the variable's name in the program; may be empty
    std::string checkpoint_key;  // key of its tensor; for some objects only the start of their keys
    bool operator==(const Attribute&) const = default;
  };
  // A value that an optimizer keeps for a variable.
  struct Slot {
    std::uint32_t variable = 0;  // node of the variable
    std::string name;            // "m"
    std::uint32_t node = 0;      // node of the kept value; often no node's child
    bool operator==(const Slot&) const = default;
  };
  // A registered saver that stored the object.
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

// The nodes by number; node 0 is the root.
using ObjectGraph = std::vector<TrackableNode>;

// Decodes the message. Throws data_loss for malformed bytes and for edges to missing nodes. Skips
// unknown fields.
ObjectGraph parse_object_graph(ByteView bytes);
// Encodes the graph, byte for byte as TensorFlow does.
Bytes encode_object_graph(const ObjectGraph& graph);

// Escape one step of a key: '.' becomes "..", then '/' becomes ".S"; and back ("a.Sb..c" is
// "a/b.c").
std::string escape_trackable(std::string_view name);
std::string unescape_trackable(std::string_view name);

}  // namespace cairn::inline v0
