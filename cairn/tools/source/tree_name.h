// tree_name.h -- the names of leaves when one format is converted to or compared with another.
#pragma once

#include <cairn/checkpoint.h>

#include <string>

namespace cairn::inline v0 {

// Whether the names are TensorFlow's keys, which no other format has, rather than paths.
inline bool has_keys(const Checkpoint& checkpoint) {
  return checkpoint.info().format == "tensorflow";
}
// The name that another format gives to a leaf: a TensorFlow key becomes the name of its path.
// `has_keys`: has_keys() of the leaf's checkpoint.
inline std::string tree_name(bool has_keys, const TensorInfo& tensor) {
  return has_keys ? param_name(tensor.path) : tensor.name;
}

}  // namespace cairn::inline v0
