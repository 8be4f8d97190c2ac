// bundle_names.h -- converts the keys of a TensorFlow checkpoint to paths of a tree.
#pragma once

#include <cairn/tree.h>

#include <span>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// The path of each key: its steps between slashes, unescaped, without the suffix
// ".ATTRIBUTES/VARIABLE_VALUE" of variables.
//
// If other keys continue a key ("w" beside "w/Adam", a variable with optimizer slots), that key
// would not be a leaf. Its path then ends with these two steps, whether the key has them or not.
// Two paths could still be equal ("a.b" and "a..b", names of TensorFlow 1, which are not escaped).
// In that case every key of the checkpoint becomes a path of one step.
std::vector<KeyPath> bundle_paths(std::span<const std::string_view> keys);

}  // namespace cairn::inline v0
