// names.h -- how the names of leaves are typed and shown. A name is the keys of a leaf joined with
// '.' (param_name), as `cairn ls` prints it. In a typed name '/' stands for itself or for '.', so
// "params/w" is the leaf "params.w" too. A leaf of exactly the typed name comes first.
#pragma once

#include <cairn/tree.h>

#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Whether a character of a typed name stands for a character of a name.
constexpr bool is_typed_as(char typed, char in_name) {
  return typed == in_name || (typed == '/' && in_name == '.');
}
// Whether a typed name stands for a name.
bool is_typed_as(std::string_view typed, std::string_view name);
// The text with '.' in place of '/'. It is the same for a typed name and all names it stands for.
std::string with_dots(std::string_view text);
// A regular expression in Python's syntax in which each '/' stands for '.', too, also in classes:
// "a/[^/]+" becomes "a[/.][^/.]+".
std::string with_dots_in_expression(std::string_view expression);

// The name of a node for messages that begin with it: "params.0.w", or "the root".
std::string leaf_text(const KeyPath& path);
// The same inside of a sentence: "'params.0.w'", or "the root".
std::string quoted_leaf_text(const KeyPath& path);

}  // namespace cairn::inline v0
