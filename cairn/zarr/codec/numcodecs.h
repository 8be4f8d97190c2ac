// numcodecs.h -- the codecs of the numcodecs package by their id and configuration: in v2's filters
// and compressor, and in v3 as "numcodecs.<id>".
#pragma once

#include <cairn/base/json.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <optional>
#include <string_view>
#include <vector>

namespace cairn::zarr {

// The steps that undo the codec; none where nothing has to be undone (bitround). Throws
// unimplemented, naming the codec, for one that Cairn does not decode, and data_loss for a
// configuration that the codec does not have. `element`: what dtypes left out stand for, and
// elementsize; nullopt where they may not be left out.
std::vector<ByteStep> parse_numcodecs(std::string_view id, const Json& config,
                                      const std::optional<DType>& element);

// Whether the codec makes arrays of arrays, so that v3 has it before `bytes`.
bool is_array_filter(std::string_view id);
// Whether its result depends on the order of the elements, or loses their shape.
bool flattens(std::string_view id);
// Whether it turns objects (strings, bytes, ...) of no fixed size into bytes, and which; kNone if
// not.
ObjectCodec object_codec(std::string_view id);

}  // namespace cairn::zarr
