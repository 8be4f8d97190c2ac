// objects.h -- chunks of elements without a fixed size, as numcodecs' vlen-utf8 and vlen-bytes
// write them.
//
//   0         4          8
//   +---------+----------+---------+----------+---------+--  ...
//   | count n | length 0 | bytes 0 | length 1 | bytes 1 |
//   +---------+----------+---------+----------+---------+--  ...
//   lengths and count: u32, little-endian; n such pairs
#pragma once

#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <cstdint>
#include <functional>

namespace cairn::inline v0::zarr {

// Receives the elements of a chunk in their stored order.
using ObjectFn = std::function<void(ByteView element)>;

// Calls `visit` for each element of a decoded chunk. Throws data_loss unless `bytes` holds exactly
// `count` elements; with vlen-utf8, each must be valid UTF-8. Does nothing for kOther.
void for_each_object(ObjectCodec codec, std::int64_t count, ByteView bytes, const ObjectFn& visit);

// Returns the limit for the decoded bytes of a chunk, and for the strings of an array, where the
// caller allows `memory` bytes of working memory. No stored number states their size.
std::uint64_t most_object_bytes(std::uint64_t memory);

// Throws unimplemented if the stored value of a chunk is too large to decode. Call it before
// reading the value.
void check_objects_size(std::uint64_t length);

// Undoes the steps of the chain on the stored value of a chunk, and calls `visit` for each element.
// Throws data_loss for damage and for a chunk that decodes to more than `most` bytes. Returns
// whether a checksum covered the value. Memory grows with the bytes that really decode.
bool decode_objects(const CodecChain& chain, ByteView stored, std::uint64_t most,
                    const ObjectFn& visit);

}  // namespace cairn::inline v0::zarr
