// codec_chain_test.cc -- undoing steps: sizes, checksums, damage, and hostile sizes.
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/zarr/codec/chain_stream.h>
#include <cairn/zarr/codec/codec_chain.h>
#include <gtest/gtest.h>
#include <tests/support/damage.h>
#include <tests/support/matchers.h>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;

Bytes numbers(std::size_t n) {
  Bytes bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * i % 251);
  return bytes;
}

Bytes with_crc(ByteView body, bool at_start = false) {
  ByteWriter out;
  if (at_start) out.u32(crc32c(body));
  out.bytes(body);
  if (!at_start) out.u32(crc32c(body));
  return std::move(out).take();
}

Bytes decode(const std::vector<ByteStep>& steps, ByteView stored, std::size_t size) {
  Bytes out(size);
  const bool checksummed = decode_steps(steps, stored, out);
  Scratch scratch;
  const DecodedBytes same = decode_steps(steps, stored, size, scratch);  // both ways must agree
  EXPECT_TRUE(std::equal(same.bytes.begin(), same.bytes.end(), out.begin(), out.end()));
  EXPECT_EQ(same.checksummed, checksummed);
  std::string why;  // a third way, unless a step needs all bytes at once
  if (const auto stream = ChainStream::open(steps, value_in_memory(stored), size, 0, why)) {
    Bytes parts(size);
    for (std::size_t at = 0; at < size; at += 77)
      stream->read(MutableByteView(parts).subspan(at, std::min<std::size_t>(77, size - at)));
    EXPECT_TRUE(parts == out);
    EXPECT_TRUE(size == 0 || stream->checksummed() == checksummed);
  }
  return out;
}

const ByteStep kZstd = CompressStep{Codec::kZstd};
const ByteStep kCrc = Crc32cStep{};

TEST(Steps, UndoneLastFirst) {
  const Bytes plain = numbers(1000);
  EXPECT_EQ(decode({}, plain, 1000), plain);
  EXPECT_EQ(decode({kCrc}, with_crc(plain), 1000), plain);
  EXPECT_EQ(decode({Crc32cStep{.at_start = true}}, with_crc(plain, true), 1000), plain);
  EXPECT_EQ(decode({kZstd}, compress_zstd(plain, 1, false), 1000), plain);
  EXPECT_EQ(decode({kZstd, kCrc}, with_crc(compress_zstd(plain, 1, false)), 1000), plain);
  EXPECT_EQ(decode({kCrc, kZstd}, compress_zstd(with_crc(plain), 1, false), 1000), plain);
  EXPECT_EQ(
      decode({kZstd, kZstd, kCrc, kCrc},
             with_crc(with_crc(compress_zstd(compress_zstd(plain, 1, false), 1, true))), 1000),
      plain);
  EXPECT_EQ(decode({}, {}, 0), Bytes{});
}

TEST(Steps, ShuffleLeavesARestAsItIs) {
  const Bytes stored = {std::byte{1}, std::byte{3}, std::byte{2}, std::byte{4}, std::byte{9}};
  EXPECT_EQ(decode({ShuffleStep{.element_size = 2}}, stored, 5),
            (Bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{9}}));
}

ByteStep delta(DType dtype, bool big_endian = false) {
  const NumberType type{.dtype = dtype, .big_endian = big_endian};
  return DeltaStep{.decoded = type, .stored = type};
}

TEST(Steps, DeltaWrapsAround) {
  const Bytes stored = {std::byte{250}, std::byte{10}, std::byte{251}};
  EXPECT_EQ(decode({delta(DType::kUint8)}, stored, 3),
            (Bytes{std::byte{250}, std::byte{4}, std::byte{255}}));
  const Bytes big = {std::byte{0}, std::byte{255}, std::byte{0}, std::byte{2}};
  EXPECT_EQ(decode({delta(DType::kUint16, true)}, big, 4),
            (Bytes{std::byte{0}, std::byte{255}, std::byte{1}, std::byte{1}}));
  Bytes out(3);
  EXPECT_THAT([&] { decode_steps(std::vector<ByteStep>{delta(DType::kInt16)}, numbers(3), out); },
              FailsWith(Code::kDataLoss, "not a whole number of int16 elements"));
}

TEST(Steps, SaysWhetherAChecksumCoversTheValue) {
  const Bytes plain = numbers(100);
  Bytes out(100);
  const auto covered = [&](const std::vector<ByteStep>& steps, const Bytes& stored) {
    return decode_steps(steps, stored, out);
  };
  EXPECT_FALSE(covered({}, plain));
  EXPECT_TRUE(covered({kCrc}, with_crc(plain)));
  EXPECT_FALSE(covered({kZstd}, compress_zstd(plain, 1, false)));
  EXPECT_TRUE(covered({kZstd}, compress_zstd(plain, 1, true)));
  EXPECT_TRUE(covered({kZstd, kCrc}, with_crc(compress_zstd(plain, 1, false))));
  EXPECT_TRUE(covered({kCrc, kZstd}, compress_zstd(with_crc(plain), 1, false)));
}

TEST(Steps, WrongSizesAreDamage) {
  const Bytes plain = numbers(100);
  const std::vector<std::pair<std::vector<ByteStep>, Bytes>> chains = {
      {{}, plain},
      {{kCrc}, with_crc(plain)},
      {{kZstd}, compress_zstd(plain, 1, false)},
      {{kZstd, kCrc}, with_crc(compress_zstd(plain, 1, false))},
      {{kCrc, kZstd}, compress_zstd(with_crc(plain), 1, false)},
      {{ShuffleStep{.element_size = 4}}, plain},
  };
  for (const auto& [steps, stored] : chains) {
    for (const std::size_t size : {0U, 99U, 101U, 1000U}) {
      Bytes out(size);
      Scratch scratch;
      EXPECT_THROW(decode_steps(steps, stored, out), Error) << size;
      EXPECT_THROW(decode_steps(steps, stored, size, scratch), Error) << size;
    }
  }
}

TEST(Steps, DamageBehindAChecksumIsSeen) {
  const Bytes plain = numbers(60);
  Bytes out(60);
  const std::vector<ByteStep> steps = {kZstd, kCrc};
  const Bytes good = with_crc(compress_zstd(plain, 1, false));
  const auto refuses = [&](ByteView bad, const std::string& what) {
    EXPECT_THROW(decode_steps(steps, bad, out), Error) << what;
  };
  cairn::testing::for_each_truncation(good, refuses);
  cairn::testing::for_each_bit_flip(good, refuses);
}

TEST(Steps, ASmallValueCannotAskForMuchMemory) {
  // One tebibyte is more than the address space of a sanitizer run would give.
  const Bytes plain = numbers(1000);
  Scratch scratch;
  const std::vector<ByteStep> steps = {kZstd};
  EXPECT_THAT(
      [&] {
        decode_steps(steps, compress_zstd(plain, 1, false), std::uint64_t{1} << 40U, scratch);
      },
      FailsWith(Code::kDataLoss));
  EXPECT_THAT([&] { decode_steps({}, plain, std::uint64_t{1} << 40U, scratch); },
              FailsWith(Code::kDataLoss, "expected 1099511627776"));
}

TEST(Steps, ALargeValueThatCompressesWellIsNotHostile) {
  const Bytes zeros(std::size_t{64} << 20U);
  const Bytes stored = compress_zstd(zeros, 1, false);
  Scratch scratch;
  const DecodedBytes decoded =
      decode_steps(std::vector<ByteStep>{kZstd}, stored, zeros.size(), scratch);
  EXPECT_TRUE(std::equal(decoded.bytes.begin(), decoded.bytes.end(), zeros.begin(), zeros.end()));
}

}  // namespace
}  // namespace cairn::zarr
