// codec_chain.h -- the closed set of Zarr codecs and the chain that turns stored bytes into the elements of a chunk.
#pragma once

#include <cairn/types.h>

namespace cairn::zarr {

struct CodecChain {};

}  // namespace cairn::zarr
