// object_graph_build.h -- builds the object graph of a checkpoint from the keys of its tensors.
#pragma once

#include <cairn/formats/tensorflow/index/object_graph.h>

#include <span>
#include <string>

namespace cairn::inline v0 {

// The key of a tensor and the name of its variable.
struct GraphKey {
  std::string key;        // "model/layer.S1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
  std::string full_name;  // the variable's name; "": the path, its steps joined with '/'
};

// Builds an object for every step of the keys that end as a variable's key does; other keys get no
// object. A key of an optimizer slot becomes a slot in the graph. The nodes have TensorFlow's
// numbers: breadth first, children in their order of appearance, slots last. Throws
// invalid_argument, naming the key, for names that are not UTF-8.
ObjectGraph build_object_graph(std::span<const GraphKey> keys);

}  // namespace cairn::inline v0
