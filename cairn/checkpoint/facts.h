// facts.h -- what an opened checkpoint says about itself, in words.
#pragma once

#include <cairn/checkpoint/layout.h>
#include <cairn/checkpoint/pytree_item.h>
#include <cairn/reader.h>

#include <span>

namespace cairn::checkpoint {

// Everything but `path`'s content is read here from small files; what cannot be read becomes a fact, never an error.
CheckpointInfo describe_checkpoint(const Layout& layout, std::span<const PytreeItem> opened);

}  // namespace cairn::checkpoint
