// metadata_json.h -- what `.zarray` and `zarr.json` have in common: members, extents, sizes.
#pragma once

#include <cairn/base/json.h>
#include <cairn/types.h>

#include <cstdint>
#include <string_view>

namespace cairn::zarr {

// The member of `object`; data_loss, naming it, if there is none.
const Json& required_member(const Json& object, std::string_view member);
const std::string& required_text(const Json& object, std::string_view member);

// An array of integers, each at least `minimum`; data_loss, naming `member`, otherwise.
Shape parse_extents(const Json& value, std::string_view member, std::int64_t minimum);

// Bytes of one chunk (0 for elements of no fixed size); data_loss where no machine could hold it.
std::uint64_t chunk_bytes(const Shape& chunk_shape, std::size_t element_size);
// Data_loss for an array whose offsets do not fit into 64 bits (extents of 0 left out, so that
// strides fit as well).
void check_array_size(const Shape& shape, std::size_t element_size);

}  // namespace cairn::zarr
