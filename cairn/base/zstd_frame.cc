// zstd_frame.cc -- frames of raw blocks; the only file that sees xxHash, inlined so that nobody links it.
#define XXH_INLINE_ALL
#include <cairn/base/byte_io.h>
#include <cairn/base/zstd_frame.h>
#include <xxhash.h>

#include <algorithm>

namespace cairn {
namespace {

constexpr std::uint64_t kBlock = std::uint64_t{1} << 17U;  // the most that the format allows
constexpr std::uint8_t kBlockWindow = (17 - 10) << 3U;     // exponent above 2^10, no mantissa
constexpr std::uint8_t kChecksumFlag = 1U << 2U;
constexpr std::uint8_t kSingleSegment = 1U << 5U;
constexpr std::size_t kBlockHeader = 3;

std::uint64_t block_count(std::uint64_t size) { return size == 0 ? 1 : (size + kBlock - 1) / kBlock; }

void put_header(ByteWriter& out, std::uint64_t size) {
  out.u32(0xfd2fb528U);
  const bool single = size <= kBlock;
  const std::uint8_t flags = kChecksumFlag | (single ? kSingleSegment : 0);
  const auto descriptor = [&](unsigned code) {
    out.u8(static_cast<std::uint8_t>(code << 6U | flags));
    if (!single) out.u8(kBlockWindow);
  };
  if (size < 256) {
    descriptor(0);
    out.u8(static_cast<std::uint8_t>(size));
  } else if (size < 256 + 65536) {
    // Two bytes count from 256; they mean the same with and without a window.
    descriptor(1);
    out.u16(static_cast<std::uint16_t>(size - 256));
  } else if (size <= 0xffffffffU) {
    descriptor(2);
    out.u32(static_cast<std::uint32_t>(size));
  } else {
    descriptor(3);
    out.u64(size);
  }
}

void put_block(ByteWriter& out, std::uint64_t size, bool last) {
  const std::uint64_t header = size << 3U | (last ? 1U : 0U);
  out.u8(static_cast<std::uint8_t>(header)).u16(static_cast<std::uint16_t>(header >> 8U));
}

std::size_t header_size(std::uint64_t size) {
  ByteWriter header;
  put_header(header, size);
  return header.size();
}

// Asks for memory some pages before it is hashed: the processor's own prefetcher does not keep up with this loop, which takes
// half as long with these hints (8.5 instead of 4.7 GB/s seen on a Xeon where memcpy makes 9.6).
std::uint64_t xxh64(ByteView content) {
  constexpr std::size_t kStep = 1024;
  constexpr std::size_t kAhead = 4096;
  constexpr std::size_t kLine = 64;
  static constexpr std::byte kNothing{};
  const std::byte* at = content.data();
  if (at == nullptr) at = &kNothing;
  std::size_t left = content.size();
  if (left <= kAhead) return XXH64(at, left, 0);
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  for (; left > kAhead + kStep; at += kStep, left -= kStep) {
    for (std::size_t line = 0; line < kStep; line += kLine) __builtin_prefetch(at + kAhead + line);
    XXH64_update(&state, at, kStep);
  }
  XXH64_update(&state, at, left);
  return XXH64_digest(&state);
}

}  // namespace

std::uint64_t raw_zstd_frame_size(std::uint64_t content_size) {
  return header_size(content_size) + kBlockHeader * block_count(content_size) + content_size + sizeof(std::uint32_t);
}

RawZstdFrame make_raw_zstd_frame(ByteView content) {
  const std::size_t blocks = block_count(content.size());
  const std::size_t rest = content.size() - (blocks - 1) * kBlock;  // the last block
  ByteWriter framing;
  put_header(framing, content.size());
  const std::size_t first_end = framing.size() + kBlockHeader;
  // All full blocks have the same header, so one will do: behind the frame's for the first, and once more for the others.
  put_block(framing, blocks == 1 ? rest : kBlock, blocks == 1);
  if (blocks > 1) {
    put_block(framing, kBlock, false);
    put_block(framing, rest, true);
  }
  framing.u32(static_cast<std::uint32_t>(xxh64(content)));

  RawZstdFrame frame{.framing = std::move(framing).take(), .pieces = {}};
  const ByteView around = frame.framing;
  frame.pieces.reserve(2 * blocks + 1);
  for (std::size_t i = 0; i < blocks; ++i) {
    const bool last = i + 1 == blocks;
    const ByteView header = i == 0 ? around.first(first_end) : around.subspan(last ? first_end + kBlockHeader : first_end, kBlockHeader);
    frame.pieces.push_back(header);
    if (!content.empty()) frame.pieces.push_back(content.subspan(i * kBlock, last ? rest : kBlock));
  }
  frame.pieces.push_back(around.last(sizeof(std::uint32_t)));
  return frame;
}

}  // namespace cairn
