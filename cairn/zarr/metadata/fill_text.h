// fill_text.h -- the fill value of an array as JSON: what fill_value.h reads, spelled as
// TensorStore spells it.
#pragma once

#include <cairn/zarr/metadata/array_metadata.h>

#include <string>

namespace cairn::zarr {

// For an array whose fill value is not null.
std::string v2_fill_text(const ArrayMetadata& metadata);
std::string v3_fill_text(const ArrayMetadata& metadata);

}  // namespace cairn::zarr
