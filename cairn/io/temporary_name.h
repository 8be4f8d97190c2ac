// temporary_name.h -- the temporary names of files and folders that Cairn writes beside their final
// names.
//
//   <name>.cairn-tmp-<tag>     tag: hexadecimal digits
//   .<name>.cairn-tmp-0        the lock of the save to <name> (save_lock.h)
//
// The lock does not begin with <name>: programs such as flax.training.checkpoints take every name
// that begins with "checkpoint_" for a checkpoint, except those of Orbax's temporary directories.
#pragma once

#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Returns `path` followed by the mark and the tag.
std::string temporary_name(std::string_view path, std::string_view tag);
// Returns the path of the lock of the save to `path`.
std::string lock_name(std::string_view path);
// Returns true if `name` has the form of Cairn's temporary names.
bool is_temporary_name(std::string_view name);
// Returns the final name that a temporary name belongs to: the part before the mark, for a lock
// without its first dot. `name` has no folder.
std::string_view temporary_target(std::string_view name);
// Returns true if `name` is a temporary name that belongs to `final_name`.
bool is_temporary_of(std::string_view name, std::string_view final_name);

}  // namespace cairn::inline v0
