// filters.h -- numcodecs' filters: they change elements and know how large the result is.
#pragma once

#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <cstdint>
#include <variant>

namespace cairn::zarr {

using FilterStep = std::variant<ShuffleStep, DeltaStep, CastStep, ScaleStep, PackBitsStep>;

// The step as a filter; nullopt for compressors and checksums.
std::optional<FilterStep> as_filter(const ByteStep& step);

// Bytes that the filter makes of n bytes.
std::uint64_t filtered_size(const FilterStep& step, std::uint64_t n);
// Bytes that `in` decodes to; data_loss if no filter could have made it.
std::uint64_t unfiltered_size(const FilterStep& step, ByteView in);
// Undoes the filter; `out` has exactly that size.
void undo_filter(const FilterStep& step, ByteView in, MutableByteView out);

}  // namespace cairn::zarr
