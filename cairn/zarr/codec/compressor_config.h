// compressor_config.h -- how a compressor was configured: what matters to writers only, since
// encoded bytes describe themselves.
#pragma once

#include <cairn/base/json.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <optional>
#include <string_view>

namespace cairn::zarr {

// The compressor that v2, v3 or numcodecs knows by `id`; nullopt if it is none. A member that is
// missing or unusable has the codec's default. The element size that blosc is told is 0 where it is
// left out: that of the array.
std::optional<CompressStep> parse_compressor(std::string_view id, const Json& config);

}  // namespace cairn::zarr
