// unfinished_set.h -- sets whose save was killed while the data files had interim names (file_set.h).
#pragma once

#include <string>

namespace cairn::inline v0 {

// Returns whether the index names data files by interim names that all exist. `index` is a path.
bool is_unfinished_set(const std::string& index);
// Ends the save of such a set: gives the data files their final names, as the index then says. The
// caller holds the SaveLock. Throws already_exists if something else than a file has such a name.
void finish_set(const std::string& index);

}  // namespace cairn::inline v0
