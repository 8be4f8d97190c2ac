// describe.h -- builds the CheckpointInfo of an open checkpoint.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/read/pytree_item.h>

#include <span>

namespace cairn::inline v0::orbax {

// Reads the small metadata files and describes the checkpoint. If a file cannot be read, the
// failure becomes a fact in the result and not an error. `opened` are the opened items.
CheckpointInfo describe_checkpoint(const Layout& layout, std::span<const PytreeItem> opened,
                                   const OpenOptions& options);

}  // namespace cairn::inline v0::orbax
