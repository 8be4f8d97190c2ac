// render_sharding.h -- shows which devices hold which part of an array, as lines below its name in
// the tree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Describes a stored sharding, given as JSON text: one line for the sharding, then one line for
// each part with the devices that hold it. If there are many parts, only the first few are listed.
// If a sharding places nothing, a line states why.
std::vector<std::string> sharding_lines(std::string_view json, std::span<const std::int64_t> shape);

}  // namespace cairn::inline v0
