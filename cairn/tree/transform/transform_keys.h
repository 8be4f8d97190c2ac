// transform_keys.h -- what planning and applying transforms share.
#pragma once

#include <cairn/transforms.h>

#include <string>

namespace cairn {

// "params/dense/0/kernel"
std::string transform_key(const KeyPath& path);
// Whether one of them looks at the stored tree as a whole.
bool has_multi_value_fn(const Transforms& transforms);

}  // namespace cairn
