// metadata_json.h -- parsing helpers that `.zarray` and `zarr.json` share: members, extents, sizes.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/types.h>

#include <cstdint>
#include <string_view>

namespace cairn::inline v0::zarr {

// Return the member of `object`. Throw data_loss, naming the member, if it is missing or, for
// required_text, not a string.
const Json& required_member(const Json& object, std::string_view member);
const std::string& required_text(const Json& object, std::string_view member);

// Parses an array of integers, each at least `minimum`. Throws data_loss, naming `member`, for
// anything else.
Shape parse_extents(const Json& value, std::string_view member, std::int64_t minimum);

// Returns the bytes of one chunk (0 for elements without a fixed size). Throws data_loss if no
// machine could hold the chunk.
std::uint64_t chunk_bytes(const Shape& chunk_shape, std::size_t element_size);
// Throws data_loss if offsets into the array do not fit into 64 bits. Extents of 0 are left out of
// the product, so that strides fit as well.
void check_array_size(const Shape& shape, std::size_t element_size);

}  // namespace cairn::inline v0::zarr
