// fill_value.h -- parses the fill value: the element that is read where no chunk is stored.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/types.h>
#include <cairn/zarr/metadata/element_type.h>

namespace cairn::inline v0::zarr {

// Return one element, little-endian (kOpaque: as stored; empty for elements without a fixed size).
// In v2, JSON null or a null pointer gives zero bytes. Both throw data_loss for a value that the
// type does not have.
Bytes parse_v2_fill(const Json* fill, const ElementType& type);
Bytes parse_v3_fill(const Json& fill, const ElementType& type);

}  // namespace cairn::inline v0::zarr
