// filters_test.cc -- numcodecs' filters and checksums: sizes, damage, and arithmetic at the edges.
#include <cairn/array/box.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/zarr/codec/codec_chain.h>
#include <cairn/zarr/codec/filters.h>
#include <cairn/zarr/codec/hdf5_checksum.h>
#include <gtest/gtest.h>
#include <tests/support/damage.h>
#include <tests/support/matchers.h>

#include <cmath>
#include <cstring>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;

template <class T>
Bytes bytes_of(std::initializer_list<T> values) {
  const auto bytes = std::as_bytes(std::span(values.begin(), values.size()));
  return {bytes.begin(), bytes.end()};
}

Bytes decode(const ByteStep& step, ByteView stored, std::size_t size) {
  Bytes out(size);
  decode_steps(std::span(&step, 1), stored, out);
  return out;
}

constexpr NumberType number(DType dtype, bool big_endian = false) {
  return {.dtype = dtype, .big_endian = big_endian};
}

TEST(Checksums, KnownValues) {
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xcbf43926U);
  EXPECT_EQ(adler32(as_bytes("123456789")), 0x091e01deU);
  EXPECT_EQ(adler32({}), 1U);
  EXPECT_EQ(fletcher32({}), 0U);
  EXPECT_EQ(fletcher32(as_bytes("abcde")), 0x4ff029c7U);
  // From the comments of lookup3's author.
  EXPECT_EQ(lookup3({}, 0), 0xdeadbeefU);
  EXPECT_EQ(lookup3({}, 0xdeadbeefU), 0xbd5b7ddeU);
  EXPECT_EQ(lookup3(as_bytes("Four score and seven years ago"), 0), 0x17770551U);
  EXPECT_EQ(lookup3(as_bytes("Four score and seven years ago"), 1), 0xcd628161U);
}

TEST(Checksums, DamageIsSeenAndNamed) {
  const Bytes body = bytes_of<std::uint16_t>({1, 2, 3, 500});
  const struct {
    ChecksumStep step;
    std::uint32_t checksum;
    const char* name;
  } kKinds[] = {
      {{.kind = Checksum::kCrc32}, crc32(body), "crc32"},
      {{.kind = Checksum::kCrc32, .at_start = true}, crc32(body), "crc32"},
      {{.kind = Checksum::kAdler32, .at_start = true}, adler32(body), "adler32"},
      {{.kind = Checksum::kFletcher32}, fletcher32(body), "fletcher32"},
      {{.kind = Checksum::kLookup3, .seed = 7}, lookup3(body, 7), "jenkins_lookup3"},
  };
  for (const auto& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    ByteWriter writer;
    if (kind.step.at_start) writer.u32(kind.checksum);
    writer.bytes(body);
    if (!kind.step.at_start) writer.u32(kind.checksum);
    const Bytes good = std::move(writer).take();
    EXPECT_EQ(decode(kind.step, good, body.size()), body);
    Bytes out(body.size());
    const ByteStep step = kind.step;
    EXPECT_TRUE(decode_steps(std::span(&step, 1), good, out));  // it covers the value
    const auto refuses = [&](ByteView bad, const std::string& what) {
      EXPECT_THROW(decode(step, bad, body.size()), Error) << what;
    };
    cairn::testing::for_each_truncation(good, refuses);
    cairn::testing::for_each_bit_flip(good, refuses);
    Bytes flipped = good;
    flipped[5] ^= std::byte{1};
    EXPECT_THAT([&] { decode(step, flipped, body.size()); },
                FailsWith(Code::kDataLoss, std::string(kind.name) + " mismatch"));
    EXPECT_THAT([&] { decode(step, ByteView(good).first(3), 0); },
                FailsWith(Code::kDataLoss, "too few for the checksum"));
  }
}

TEST(Filters, ElementsThatDoNotFitAreDamage) {
  const ByteStep kSteps[] = {
      DeltaStep{.decoded = number(DType::kInt32), .stored = number(DType::kInt16)},
      CastStep{.decoded = number(DType::kFloat64), .stored = number(DType::kFloat32, true)},
      ScaleStep{.decoded = number(DType::kFloat32),
                .stored = number(DType::kUint8),
                .scale = 2,
                .offset = 1},
      PackBitsStep{},
      ShuffleStep{.element_size = 4},
  };
  for (const ByteStep& step : kSteps) {
    SCOPED_TRACE(step.index());
    const std::uint64_t stored = filtered_size(*as_filter(step), 32);
    EXPECT_EQ(encoded_bound(step, 32), stored);
    EXPECT_NO_THROW(decode(step, Bytes(stored), 32));
    for (std::size_t wrong = 0; wrong <= 2 * stored; ++wrong) {
      if (wrong == stored) continue;
      EXPECT_THROW(decode(step, Bytes(wrong), 32), Error) << wrong;
    }
  }
}

TEST(Filters, PackedBitsAreChecked) {
  const auto packed = [](std::initializer_list<unsigned char> bytes) { return bytes_of(bytes); };
  EXPECT_EQ(decode(PackBitsStep{}, packed({5, 0xa0}), 3), packed({1, 0, 1}));
  EXPECT_EQ(decode(PackBitsStep{}, packed({0}), 0), Bytes{});
  EXPECT_EQ(decode(PackBitsStep{}, packed({0, 0x01}), 8), packed({0, 0, 0, 0, 0, 0, 0, 1}));
  for (const auto& bad : {packed({8, 0xa0, 0}), packed({1}), packed({}), packed({255, 0, 0})})
    EXPECT_THAT([&] { decode(PackBitsStep{}, bad, 8); }, FailsWith(Code::kDataLoss, "packbits"));
}

TEST(Filters, DeltaKeepsTheFirstElementsSign) {
  const ByteStep step =
      DeltaStep{.decoded = number(DType::kFloat32), .stored = number(DType::kFloat32)};
  const Bytes out = decode(step, bytes_of<float>({-0.0F, -0.0F, 1.5F}), 12);
  EXPECT_EQ(out, bytes_of<float>({-0.0F, -0.0F, 1.5F}));
}

TEST(Filters, DeltaGoesOnOverBlocks) {
  Bytes stored(10000, std::byte{1});
  const ByteStep step =
      DeltaStep{.decoded = number(DType::kUint32, true), .stored = number(DType::kInt8)};
  const Bytes out = decode(step, stored, 40000);
  EXPECT_EQ(Bytes(out.end() - 4, out.end()),
            (Bytes{std::byte{0}, std::byte{0}, std::byte{0x27}, std::byte{0x10}}));
}

TEST(Filters, ScaleDividesAsItsStoredTypeDoes) {
  // 0.1 as float is more than as double: the quotients differ.
  const auto step = [](DType stored) {
    return ScaleStep{number(DType::kFloat64), number(stored), 0.1, 0.25};
  };
  EXPECT_EQ(decode(step(DType::kFloat32), bytes_of<float>({7}), 8),
            bytes_of<double>({static_cast<double>(7.0F / 0.1F + 0.25F)}));
  EXPECT_EQ(decode(step(DType::kInt16), bytes_of<std::int16_t>({7}), 8),
            bytes_of<double>({7.0 / 0.1 + 0.25}));
}

TEST(Filters, MemoryBetweenSteps) {
  const ByteStep zstd = CompressStep{Codec::kZstd};
  const ByteStep crc = Crc32cStep{};
  const ByteStep wide =
      CastStep{.decoded = number(DType::kUint8), .stored = number(DType::kFloat64)};
  EXPECT_EQ(memory_between({}, 1000), 0U);
  EXPECT_EQ(memory_between(std::vector{zstd}, 1000), 0U);
  EXPECT_EQ(memory_between(std::vector{zstd, crc, crc}, 1000), 0U);
  EXPECT_EQ(memory_between(std::vector{wide, zstd}, 1000), 8000U);
  EXPECT_EQ(memory_between(std::vector{wide, crc, zstd}, 1000), 8004U);
  EXPECT_EQ(memory_between(std::vector{wide, ByteStep(ShuffleStep{.element_size = 8}), zstd}, 1000),
            16000U);
  const std::vector<ByteStep> hostile(
      64, CastStep{.decoded = number(DType::kUint8), .stored = number(DType::kComplex128)});
  EXPECT_LE(memory_between(hostile, std::uint64_t{1} << 56U), std::uint64_t{1} << 59U);
}

}  // namespace
}  // namespace cairn::zarr
