// background_copy.h -- what a background save copies before it returns.
#pragma once

#include <cairn/orbax/handlers.h>
#include <cairn/tree.h>

#include <cstdint>

namespace cairn::inline v0::orbax {

// The bytes of the arrays of a tree that a background save copies first. `is_prioritized` as in
// PyTreeCheckpointHandlerOptions: arrays on devices for which it is false are copied later.
std::uint64_t bytes_to_copy(const Tree& tree, const IsPrioritizedKeyFn& is_prioritized);

}  // namespace cairn::inline v0::orbax
