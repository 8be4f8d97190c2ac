// orbax_copies.h -- the copies in the folder of an Orbax checkpoint: its trees as they are, older
// generations of their databases, and the databases of the processes.
#pragma once

#include <cairn/orbax/layout/layout.h>
#include <cairn/tools/repair/copies.h>

namespace cairn::inline v0 {

// Never throws because of damage. A tree whose `_METADATA` cannot be read is rebuilt from the names
// of its arrays.
FoundCopies find_orbax_copies(const orbax::Layout& layout, const OpenOptions& options);

}  // namespace cairn::inline v0
