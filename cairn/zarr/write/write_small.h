// write_small.h -- writes many small arrays of one chunk each. It plans nothing: for such arrays a
// plan costs more than encoding the elements.
#pragma once

#include <cairn/kvstore/value_sink.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/write/encode.h>
#include <cairn/zarr/write/write_array.h>

#include <cstddef>
#include <span>

namespace cairn::inline v0::zarr {

// Returns whether write_small() writes arrays with this metadata: one chunk of at most 64 KiB, and
// neither shards nor a transpose nor swapped bytes.
bool is_small_whole(const ArrayMetadata& metadata);

// All elements of an array, contiguous, in C order and in the array's type.
struct SmallWrite {
  const ZarrArray* array = nullptr;  // its name is the prefix of error messages
  const std::byte* elements = nullptr;
};

// Writes the only chunk of each array, in parallel, as write_boxes() does. Ignores the context's
// budget, because each thread holds one small chunk, and its reusable values.
void write_small(std::span<const SmallWrite> writes, ValueSink& sink, const EncodeOptions& encode,
                 const WriteContext& context);

}  // namespace cairn::inline v0::zarr
