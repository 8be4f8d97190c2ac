// find_map.h -- finds a map by its name or in a file.
#pragma once

#include <cairn/tools/model_map/model_map.h>

#include <string>

namespace cairn::inline v0 {

// The text of a file of rules, of at most 16 MiB.
std::string read_rules_file(const std::string& path);
// The text of a shipped map, or of a file if the name has a '/' or ends with ".json". Throws
// not_found with the names that there are.
std::string map_text(const std::string& name);
// Parses a map from a document of parse_rules_document(). One that names another map has its rules,
// with other defaults.
ModelMap parse_map(const Json& document);

}  // namespace cairn::inline v0
