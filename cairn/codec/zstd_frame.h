// zstd_frame.h -- zstd frames of raw (uncompressed) blocks, with a checksum of the content.
//
//   4 bytes     1          0-1    1-8          3     <= 2^17       3     <= 2^17 4
//   +-----------+----------+------+------------+-----+-------+-   -+-----+-------+--------+
//   |28 b5 2f fd|descriptor|window|content size|block|bytes  | ... |block|bytes  |checksum|
//   +-----------+----------+------+------------+-----+-------+-   -+-----+-------+--------+
//   descriptor: content size code << 6 | single segment << 5 | checksum << 2
//   block: u24 = size << 3 | type (raw: 0) << 1 | last
//   checksum: the low 32 bits of the content's XXH64 with seed 0
//   integers are little-endian
//
// Every zstd decoder reads such a frame and detects a flipped bit. Making a frame costs only the
// checksum: the content is not copied. A frame of one block is a single segment. The window of a
// larger frame is one block, so that streaming decoders need little memory.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// A frame that borrows its content.
struct RawZstdFrame {
  Bytes framing;                 // all bytes except the content; pieces point into it
  std::vector<ByteView> pieces;  // the frame in order; the last is the checksum
  MutableByteView checksum;      // of the framing
};
// Makes a frame around `content`, which must outlive it.
RawZstdFrame make_raw_zstd_frame(ByteView content);
// The same without the checksum, which takes nearly all of the time. Another thread may make it
// while the other pieces are written.
RawZstdFrame begin_raw_zstd_frame(ByteView content);
void put_raw_zstd_checksum(ByteView content, MutableByteView checksum);
// Returns the frame size for a content of this size.
std::uint64_t raw_zstd_frame_size(std::uint64_t content_size);

// Decodes a frame that make_raw_zstd_frame has made of content.size() bytes, if they are one block.
// Returns false, with `content` in any state, for any other frame or a wrong checksum. For a small
// frame, a zstd decoder takes longer.
bool decode_raw_zstd_block(ByteView frame, MutableByteView content);

// Fills the parts, in order, with the bytes of the frame from `offset` on.
using ScatterSource =
    std::function<void(std::uint64_t offset, std::span<const MutableByteView> parts)>;
// The most memory that reading a part of a frame takes.
inline constexpr std::uint64_t kRawFramePiece = std::uint64_t{512} << 10U;
// Reads a frame that make_raw_zstd_frame has made of `size` bytes, and of its content the bytes
// from `at` on into `part`: straight, but for the ends of the part. Verifies all of the content,
// each piece while it is still in the cache. Returns false, with `part` in any state, for any other
// frame or a wrong checksum. The caller then uses a zstd decoder, which decodes the frame or
// reports the error.
bool read_raw_zstd_frame(const ScatterSource& source, std::uint64_t size, std::uint64_t at,
                         MutableByteView part);

// Returns whether a stored value of `size` bytes is the frame that make_raw_zstd_frame makes of
// `content`. Stops reading at the first difference. Returns nullopt if the value is another frame,
// which may still decode to the content.
std::optional<bool> is_raw_zstd_frame_of(const ScatterSource& source, std::uint64_t size,
                                         ByteView content);

}  // namespace cairn::inline v0
