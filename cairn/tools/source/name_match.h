// name_match.h -- matches the names that users type against the names of leaves.
#pragma once

#include <cairn/checkpoint.h>

#include <string_view>

namespace cairn::inline v0 {

// Whether a pattern stands for a name: it is the name, or the form in which the name is shown, or a
// glob that matches one of them.
bool name_matches(std::string_view pattern, std::string_view name);
// The same for a leaf, whose name may be preceded by its item.
bool name_matches(std::string_view pattern, const TensorInfo& tensor);

}  // namespace cairn::inline v0
