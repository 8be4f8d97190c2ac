// zarr_metadata.h -- describes an array by its metadata file, as Orbax's ZarrMetadata does.
#pragma once

#include <cairn/orbax/array_spec.h>
#include <cairn/zarr/metadata/array_metadata.h>

#include <optional>

namespace cairn::inline v0::handlers {

// The description of an array; nullopt for one that TensorStore does not read.
std::optional<ZarrMetadata> describe_zarr(const zarr::ArrayMetadata& metadata);

}  // namespace cairn::inline v0::handlers
