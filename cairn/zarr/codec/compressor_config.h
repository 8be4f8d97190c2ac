// compressor_config.h -- parses the configuration of compressors. Only writers use it, because
// compressed bytes describe themselves.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <optional>
#include <string_view>

namespace cairn::inline v0::zarr {

// Returns the compressor that v2, v3 or numcodecs calls `id`; nullopt if `id` is not a compressor.
// A missing or unusable member gets the codec's default. A missing element size of blosc is stored
// as 0, which means the element size of the array.
std::optional<CompressStep> parse_compressor(std::string_view id, const Json& config);

}  // namespace cairn::inline v0::zarr
