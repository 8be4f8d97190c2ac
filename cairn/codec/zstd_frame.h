// zstd_frame.h -- a zstd frame around bytes as they are: raw blocks, and the checksum of the
// content behind them.
//
//      4 bytes      1            0-1       1-8            3       <= 2^17   3       ...   3 <= 2^17
//      4
//      +------------+------------+--------+--------------+-------+---------+-------+-----+-------+---------+----------+
//      | 28 b5 2f fd| descriptor | window | content size | block | bytes   | block | ... | block |
//      bytes   | checksum |
//      +------------+------------+--------+--------------+-------+---------+-------+-----+-------+---------+----------+
//   descriptor: content size code << 6 | single segment << 5 | checksum << 2; integers
//   little-endian block: u24 = size << 3 | type (raw: 0) << 1 | last checksum: the low 32 bits of
//   the content's XXH64 with seed 0
//
// Every zstd decoder takes it, and notices a flipped bit. Making one costs the checksum: the
// content is not copied. Up to one block the frame is a single segment; beyond, its window is one
// block, so that those who decode it in a stream need little memory.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cairn {

struct RawZstdFrame {
  Bytes framing;                 // everything but the content; pieces point into it
  std::vector<ByteView> pieces;  // the frame, in order; borrows the content
};
RawZstdFrame make_raw_zstd_frame(ByteView content);
// Bytes of the frame around a content of this size.
std::uint64_t raw_zstd_frame_size(std::uint64_t content_size);

// Fills the parts, one after the other, with the bytes of the frame from `offset` on.
using ScatterSource =
    std::function<void(std::uint64_t offset, std::span<const MutableByteView> parts)>;
// Reads a frame of raw_zstd_frame_size(content.size()) bytes, if it is one as made here, straight
// to where its content is wanted, and checks each piece of it while the cache still has it. False,
// with `content` in any state, if the frame is another one or its checksum does not match: a zstd
// decoder reads it, or says what is wrong.
bool read_raw_zstd_frame(const ScatterSource& source, MutableByteView content);

}  // namespace cairn
