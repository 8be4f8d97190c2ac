// array_parts.h -- the part of an array that this process contributes when several processes store
// the array together.
#pragma once

#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>

#include <optional>
#include <span>

namespace cairn::inline v0::handlers {

// Throws invalid_argument if all devices of the array belong to this process: the other `processes`
// know nothing of such an array.
void check_not_host_local(const ShardedArray& array, std::size_t processes);

// Whether Orbax treats the array as replicated when it chooses the database: the spec leaves some
// mesh axis or some dimension unnamed.
bool looks_replicated(const Sharding& sharding);

// Sets the parts of `store`. `pieces` has the box that each of the array's shards stores. With
// `copy_now` the elements are copied at once. Otherwise parts are views of shards in memory, and
// other shards are copied from their source when needed.
void set_parts(StoreArray& store, const ShardedArray& array,
               std::span<const std::optional<Box>> pieces, bool copy_now);

}  // namespace cairn::inline v0::handlers
