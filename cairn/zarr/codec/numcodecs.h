// numcodecs.h -- parses the codecs of the numcodecs package by id and configuration. They occur in
// v2's filters and compressor, and in v3 as "numcodecs.<id>".
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <optional>
#include <string_view>
#include <vector>

namespace cairn::inline v0::zarr {

// Returns the steps that undo the codec; an empty list if there is nothing to undo (bitround).
// Throws unimplemented, naming the codec, for one that Cairn does not decode, and data_loss for an
// invalid configuration. `element` is the default for missing dtypes and for elementsize; nullopt
// if they must be present.
std::vector<ByteStep> parse_numcodecs(std::string_view id, const Json& config,
                                      const std::optional<DType>& element);

// Returns whether the codec maps arrays to arrays; v3 puts such codecs before `bytes`.
bool is_array_filter(std::string_view id);
// Returns whether the codec's result depends on the order of the elements, or loses their shape.
bool flattens(std::string_view id);
// Returns the codec that converts objects without a fixed size (strings, bytes, ...) to bytes;
// kNone for other ids.
ObjectCodec object_codec(std::string_view id);

}  // namespace cairn::inline v0::zarr
