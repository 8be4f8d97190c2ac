// objects.h -- chunks of elements that have no fixed size, as numcodecs' vlen-utf8 and vlen-bytes
// write them.
//
//   0         4          8
//   +---------+----------+---------+----------+---------+--  ...
//   | count n | length 0 | bytes 0 | length 1 | bytes 1 |       lengths and count: u32,
//   little-endian; n such pairs
//   +---------+----------+---------+----------+---------+--  ...
#pragma once

#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <cstdint>

namespace cairn::zarr {

// Throws data_loss unless `bytes` are exactly `count` elements, for vlen-utf8 each of them UTF-8.
// Says nothing about kOther.
void check_object_bytes(ObjectCodec codec, std::int64_t count, ByteView bytes);

}  // namespace cairn::zarr
