// fill_text.h -- writes an array's fill value as JSON, in TensorStore's spelling. fill_value.h
// reads it.
#pragma once

#include <cairn/zarr/metadata/array_metadata.h>

#include <string>

namespace cairn::inline v0::zarr {

// Return the fill value of an array as JSON. The fill value must not be null.
std::string v2_fill_text(const ArrayMetadata& metadata);
std::string v3_fill_text(const ArrayMetadata& metadata);

}  // namespace cairn::inline v0::zarr
