// filters.h -- the filters of numcodecs. A filter changes elements, and its output size is known in
// advance.
#pragma once

#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

namespace cairn::inline v0::zarr {

// The steps that are filters.
using FilterStep = std::variant<ShuffleStep, DeltaStep, CastStep, ScaleStep, PackBitsStep>;

// Returns the step as a filter; nullopt for compressors and checksums.
std::optional<FilterStep> as_filter(const ByteStep& step);

// Returns the number of bytes that the filter makes of n bytes.
std::uint64_t filtered_size(const FilterStep& step, std::uint64_t n);
// Returns the decoded size of `in`. Throws data_loss if the filter cannot have made `in`.
std::uint64_t unfiltered_size(const FilterStep& step, ByteView in);
// Undoes the filter. `out` has exactly the size that unfiltered_size returns.
void undo_filter(const FilterStep& step, ByteView in, MutableByteView out);

// Returns whether the filter can be undone on a part of its elements: it is neither a shuffle nor
// packbits.
bool is_elementwise(const FilterStep& step);
// The last decoded element of a part, which the next part begins with.
struct FilterCarry {
  bool started = false;
  std::array<std::byte, 8> sum{};
};
// Undoes an elementwise filter on the next whole elements.
void undo_filter_part(const FilterStep& step, ByteView in, MutableByteView out, FilterCarry& carry);

}  // namespace cairn::inline v0::zarr
