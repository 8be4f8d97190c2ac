// python_tuple.h -- the names of the leaves in `_METADATA`: tuples of strings as Python's repr
// formats them.
#pragma once

#include <cairn/tree.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Parses "()", "('a',)", "('a', 'b')". Returns nullopt for a text that Python's repr formats for no
// tuple of strings. Accepts every spelling of a character, because it depends on the version of
// Python which characters are escaped.
std::optional<std::vector<std::string>> parse_python_tuple(std::string_view text);

// Whether the tuple has the keys of the path.
bool has_keys_of(const std::vector<std::string>& tuple, const KeyPath& path);

}  // namespace cairn::inline v0
