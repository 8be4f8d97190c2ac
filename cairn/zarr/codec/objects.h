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

namespace cairn::inline v0::zarr {

// Throws data_loss unless `bytes` holds exactly `count` elements; with vlen-utf8, each must be
// valid UTF-8. Does not check kOther.
void check_object_bytes(ObjectCodec codec, std::int64_t count, ByteView bytes);

}  // namespace cairn::inline v0::zarr
