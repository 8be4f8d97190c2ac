// bundle_names.h -- the keys of a TensorFlow checkpoint as paths of a tree.
#pragma once

#include <cairn/tree.h>

#include <span>
#include <string_view>
#include <vector>

namespace cairn {

// The path of each key: its steps between slashes, not escaped, without the
// ".ATTRIBUTES/VARIABLE_VALUE" that keys of variables end with. A key that others go on behind ("w"
// beside "w/Adam", a variable with optimizer slots) is not a leaf then, and has these two steps at
// its end whether it is spelled with them or not. Where two would be the same all the same ("a.b"
// and "a..b", names of TensorFlow 1, which are not escaped), each key is one step.
std::vector<KeyPath> bundle_paths(std::span<const std::string_view> keys);

}  // namespace cairn
