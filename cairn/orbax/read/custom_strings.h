// custom_strings.h -- finds strings in a file of another name than _strings.json. Orbax's
// StringHandler accepts such a name as "filename". The checkpoint itself does not record the name.
#pragma once

#include <cairn/orbax/read/pytree_item.h>

#include <string>
#include <unordered_map>

namespace cairn::inline v0::orbax {

// The strings of one file, by parameter name.
using Strings = std::unordered_map<std::string, std::string>;

// Returns the strings of the one JSON file in the item's folder that has a string for each of
// `names` and that Orbax gives no other meaning, and stores its name in item.strings_file. Throws
// not_found, with the name of the expected file, if there is none, and if there are several.
Strings find_custom_strings(PytreeItem& item, const std::vector<std::string>& names);

}  // namespace cairn::inline v0::orbax
