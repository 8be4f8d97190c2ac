// tree_name.h -- what leaves are called where formats meet.
#pragma once

#include <cairn/checkpoint.h>

#include <string>

namespace cairn {

// Whether names are keys of TensorFlow's, which no other format has, and not those of paths.
inline bool has_keys(const Checkpoint& checkpoint) {
  return checkpoint.info().format == "tensorflow";
}
// The name that another format gives to a leaf: of a key that of its path.
inline std::string tree_name(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  return has_keys(checkpoint) ? param_name(tensor.path) : tensor.name;
}

}  // namespace cairn
