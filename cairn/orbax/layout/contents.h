// contents.h -- whether a directory is a checkpoint and holds nothing else: only then may it be
// replaced or removed.
#pragma once

#include <cairn/io/directory.h>

#include <cstdint>

namespace cairn::orbax {

// kTarget: a finished or unfinished checkpoint, which its own top level must say (one of
// `_METADATA`, `_CHECKPOINT_METADATA`, `orbax.checkpoint`, `manifest.ocdbt`, `ocdbt.process_*`, the
// msgpack file `checkpoint`), or an empty directory. kTemporary: one whose name says that it is
// unfinished; any part of a checkpoint may be missing.
enum class DirectoryRole : std::uint8_t { kTarget, kTemporary };

// Throws already_exists that names the first entry which is not one of a checkpoint in the layouts
// of Orbax (shared facts: one pytree item, or a step of items), or why the directory is not one.
// Looks at names, and at the metadata that lists items and parameters; symbolic links, devices,
// pipes and sockets are never part of a checkpoint. Throws io for what cannot be listed.
void check_only_checkpoint(const Directory& directory, DirectoryRole role);

}  // namespace cairn::orbax
