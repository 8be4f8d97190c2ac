// unchanged.h -- finds out whether the elements of a chunk are those that an earlier save has
// stored.
#pragma once

#include <cairn/storage/kvstore.h>
#include <cairn/zarr/write/chunk_plan.h>
#include <cairn/zarr/write/write_array.h>

#include <string>

namespace cairn::inline v0::zarr {

// Returns whether the stored value decodes to exactly the elements of the chunk. Where the
// fingerprints of the context know the stored elements and the file has not been written to since,
// they are compared instead. Throws if the value cannot be read or decoded. The arrays' metadata
// must be equal in both saves. `key` is the chunk's key in the new save.
bool is_unchanged(const ArrayMetadata& metadata, const PlannedChunk& chunk,
                  const Location& location, const std::string& key, const WriteContext& context);

}  // namespace cairn::inline v0::zarr
