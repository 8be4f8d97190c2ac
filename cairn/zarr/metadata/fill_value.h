// fill_value.h -- the element that stands for what was never stored.
#pragma once

#include <cairn/base/json.h>
#include <cairn/types.h>
#include <cairn/zarr/metadata/element_type.h>

namespace cairn::zarr {

// One element, little-endian (kOpaque: as stored; nothing for elements of no fixed size). v2: null
// or nullptr gives zero bytes. Both throw data_loss for a value that the type does not have.
Bytes parse_v2_fill(const Json* fill, const ElementType& type);
Bytes parse_v3_fill(const Json& fill, const ElementType& type);

}  // namespace cairn::zarr
