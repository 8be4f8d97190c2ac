// object_graph_build.h -- the object graph of a checkpoint whose tensors are known by their keys
// alone.
#pragma once

#include <cairn/formats/tensorflow/index/object_graph.h>

#include <span>
#include <string>

namespace cairn {

struct GraphKey {
  std::string key;        // "model/layer.S1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
  std::string full_name;  // "": the path, its steps joined with '/'
};

// An object for every step of the keys that end as a variable's does; others are in no object. What
// is a slot of an optimizer by its key is one in the graph. Numbered as TensorFlow numbers what it
// saves: breadth first, children in the order in which they come, slots last. Throws
// invalid_argument, naming the key, for names that are not UTF-8.
ObjectGraph build_object_graph(std::span<const GraphKey> keys);

}  // namespace cairn
