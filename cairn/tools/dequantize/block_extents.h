// block_extents.h -- which elements of a weight share a scale, as the shapes of both show it.
#pragma once

#include <cairn/types.h>

#include <string>

namespace cairn::inline v0 {

// The extents of the blocks, one for each axis; empty if there is one scale for all. `configured`:
// the extents along the last axes, as the model's configuration gives them; empty: unknown. Then
// they must follow from the shapes: a scale for the whole axis or for each of its indices, or else
// blocks whose extent divides the axis or is a power of two, if only one such extent fits. Throws
// data_loss for a scale of a shape that no blocks have, invalid_argument if several extents fit.
Shape block_extents(const Shape& weight, const Shape& scale, const Shape& configured);

// "per tensor", "per channel", "blocks of 128 x 128", "groups of 32": the blocks in words.
std::string blocks_text(const Shape& blocks, const Shape& weight);

}  // namespace cairn::inline v0
