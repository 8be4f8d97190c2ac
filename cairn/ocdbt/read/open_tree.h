// open_tree.h -- opens one B+tree of a database as a store.
#pragma once

#include <cairn/ocdbt/read/node_reader.h>
#include <cairn/storage/kvstore.h>

#include <cstddef>
#include <optional>

namespace cairn::inline v0::ocdbt {

// The keys below the root; nullopt: none. Reads nothing yet. `threads` as in Resources.
StorePtr open_tree(StorePtr base, std::optional<NodeExpectation> root, std::size_t threads);

}  // namespace cairn::inline v0::ocdbt
