// describe.h -- what an opened checkpoint says about itself, in words.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/read/pytree_item.h>

#include <span>

namespace cairn::orbax {

// Everything but `path`'s content is read here from small files; what cannot be read becomes a
// fact, never an error.
CheckpointInfo describe_checkpoint(const Layout& layout, std::span<const PytreeItem> opened);

}  // namespace cairn::orbax
