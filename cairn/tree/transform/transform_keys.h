// transform_keys.h -- helpers shared by the code that plans transforms and the code that applies
// them.
#pragma once

#include <cairn/transforms.h>

#include <string>

namespace cairn::inline v0 {

// The path as text, its steps joined with '/': "params/dense/0/kernel".
std::string transform_key(const KeyPath& path);
// Whether one of the transforms takes the stored tree as a whole.
bool has_multi_value_fn(const Transforms& transforms);

}  // namespace cairn::inline v0
