// map_scope.h -- computes the options and values of a map.
#pragma once

#include <cairn/tools/model_map/map_leaves.h>
#include <cairn/tools/model_map/scope.h>

#include <cstddef>
#include <vector>

namespace cairn::inline v0 {

// Sets the values for a conversion from side `from`, and returns them. Throws invalid_argument for
// values that the map does not have, and for one that an option does not allow.
std::vector<TransformValue> set_map_values(const MapInput& input, std::size_t from, Scope& scope);

}  // namespace cairn::inline v0
