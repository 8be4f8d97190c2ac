// array_parts.h -- arrays that several processes store together: which part of one this process
// gives, and from where.
#pragma once

#include <cairn/handlers.h>

#include <optional>
#include <span>

namespace cairn::handlers {

// Throws invalid_argument for an array all of whose devices are this process's, of which the
// `processes` others know nothing.
void check_not_host_local(const ShardedArray& array, std::size_t processes);

// What Orbax takes for replicated when it chooses the database: some mesh axis, or some dimension,
// is not named in the spec.
bool looks_replicated(const Sharding& sharding);

// Sets the parts of `store`: `pieces` are what each of the array's shards stores. With `copy_now`
// their elements are copied; else they are views of the shards' memory where they lie in such, and
// copied from the shard's source when they are wanted where not.
void set_parts(StoreArray& store, const ShardedArray& array,
               std::span<const std::optional<Box>> pieces, bool copy_now);

}  // namespace cairn::handlers
