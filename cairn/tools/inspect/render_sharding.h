// render_sharding.h -- who holds what of one array, as lines below its name in the tree.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// For the JSON text of a stored sharding: the sharding in one line, then one line for each part
// with the devices that hold it; of many parts the first few. A sharding that places nothing says
// why.
std::vector<std::string> sharding_lines(std::string_view json, std::span<const std::int64_t> shape);

}  // namespace cairn
