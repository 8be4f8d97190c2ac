// module_names.h -- the modules that a leaf belongs to.
#pragma once

#include <cairn/checkpoint.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

// The components of a leaf's name, with the item first. Formats without a tree join them with '.'
// or '/' in one key.
std::vector<std::string> module_names(const TensorInfo& t);

}  // namespace cairn::inline v0
