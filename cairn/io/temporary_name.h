// temporary_name.h -- the temporary names of files and folders that Cairn writes beside their final
// names.
//
//   <name>.cairn-tmp-<tag>     tag: hexadecimal digits
//   <name>.cairn-tmp-0         the lock of the save to <name> (save_lock.h)
#pragma once

#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Returns `path` followed by the mark and the tag.
std::string temporary_name(std::string_view path, std::string_view tag);
// Returns true if `name` has the form of Cairn's temporary names.
bool is_temporary_name(std::string_view name);
// Returns the final name that a temporary name belongs to: everything before the mark.
std::string_view temporary_target(std::string_view name);
// Returns true if `name` is a temporary name that belongs to `final_name`.
bool is_temporary_of(std::string_view name, std::string_view final_name);

}  // namespace cairn::inline v0
