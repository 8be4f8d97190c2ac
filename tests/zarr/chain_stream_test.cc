// chain_stream_test.cc -- chunks that are decoded in parts: the same values, the same damage, and
// bounded memory.
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/codec/compress.h>
#include <cairn/zarr/codec/chain_stream.h>
#include <cairn/zarr/codec/filters.h>
#include <cairn/zarr/codec/hdf5_checksum.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>

#include <cstring>
#include <random>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;

constexpr Codec kCodecs[] = {Codec::kZstd,  Codec::kGzip, Codec::kZlib,
                             Codec::kBlosc, Codec::kBz2,  Codec::kLz4};

Bytes compressed(Codec codec, ByteView in, const CompressOptions& options = {}) {
  Bytes out(compress_bound(codec, in.size()));
  out.resize(compress_into(codec, options, in, out));
  return out;
}

// Runs, noise and zeros, so that every codec finds something to do.
Bytes mixed_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes out(size);
  for (std::size_t at = 0; at < size;) {
    const std::size_t end = std::min<std::size_t>(size, at + 1 + random() % 5000);
    const unsigned kind = random() % 4;
    for (; at < end; ++at)
      out[at] = kind == 0   ? std::byte{0}
                : kind == 1 ? static_cast<std::byte>(random())
                : kind == 2 ? static_cast<std::byte>(at % 7)
                            : out[at - std::min<std::size_t>(at, 3000)];
  }
  return out;
}

std::unique_ptr<ChainStream> open(const std::vector<ByteStep>& steps, ByteView stored,
                                  std::uint64_t nbytes, ByteOrder order = ByteOrder::kKeep) {
  std::string why;
  return ChainStream::open(steps, value_in_memory(stored), nbytes, std::uint64_t{1} << 30U, why,
                           order);
}

Bytes read_in_parts(ChainStream& stream, std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes out(size);
  for (std::size_t at = 0; at < size;) {
    const std::size_t n = std::min<std::size_t>(size - at, 1 + random() % 90'000);
    stream.read(MutableByteView(out).subspan(at, n));
    at += n;
  }
  return out;
}

TEST(ChainStream, EveryCodecDecodesInParts) {
  for (const std::size_t size : {1U, 13U, 1000U, 65'536U, 400'001U}) {
    const Bytes value = mixed_bytes(size, 1);
    for (const Codec codec : kCodecs) {
      const Bytes stored = compressed(codec, value);
      const std::vector<ByteStep> steps{CompressStep{codec}};
      const auto stream = open(steps, stored, size);
      ASSERT_TRUE(stream) << codec_name(codec);
      EXPECT_TRUE(read_in_parts(*stream, size, 2) == value) << codec_name(codec) << " " << size;
      const bool has_checksum =
          codec == Codec::kGzip || codec == Codec::kZlib || codec == Codec::kBz2;
      EXPECT_EQ(stream->checksummed(), has_checksum) << codec_name(codec);
      EXPECT_EQ(stream->has_checksum(), has_checksum) << codec_name(codec);
    }
  }
}

TEST(ChainStream, NestedStepsDecodeInParts) {
  const Bytes value = mixed_bytes(200'000, 3);
  for (const Codec inner : kCodecs)
    for (const Codec outer : kCodecs) {
      const Bytes stored = compressed(outer, compressed(inner, value));
      const auto stream = open({CompressStep{inner}, CompressStep{outer}}, stored, value.size());
      ASSERT_TRUE(stream);
      EXPECT_TRUE(read_in_parts(*stream, value.size(), 4) == value)
          << codec_name(inner) << " in " << codec_name(outer);
    }
}

TEST(ChainStream, SeveralMembersAndFramesAreOneValue) {
  const Bytes value = mixed_bytes(300'000, 5);
  const ByteView all = value;
  for (const Codec codec : {Codec::kZstd, Codec::kGzip, Codec::kBz2}) {
    Bytes stored;
    for (const std::size_t at : {0U, 100'000U, 100'000U, 200'000U})
      for (const std::byte b :
           compressed(codec, all.subspan(at, at == 100'000U ? 50'000 : 100'000)))
        stored.push_back(b);
    Bytes expected(decompress(codec, stored, 1 << 20));
    const auto stream = open({CompressStep{codec}}, stored, expected.size());
    ASSERT_TRUE(stream);
    EXPECT_TRUE(read_in_parts(*stream, expected.size(), 6) == expected) << codec_name(codec);
  }
}

TEST(ChainStream, SkippableFramesAreSkipped) {
  const Bytes value = mixed_bytes(300'000, 5);
  for (const std::uint32_t size : {0U, 1U, 100U, 3'000'000U}) {
    ByteWriter skippable;
    skippable.u32(0x184d2a57U).u32(size).bytes(Bytes(size, std::byte{9}));
    ByteWriter all;
    for (const std::size_t at : {0U, 200'000U})
      all.bytes(skippable.view())
          .bytes(skippable.view())
          .bytes(
              compressed(Codec::kZstd, ByteView(value).subspan(at, at == 0 ? 200'000 : 100'000)));
    all.bytes(skippable.view());
    const auto stream = open({CompressStep{Codec::kZstd}}, all.view(), value.size());
    ASSERT_TRUE(stream);
    EXPECT_TRUE(read_in_parts(*stream, value.size(), 6) == value) << size;
    // without its last byte, and without anything but skippable frames
    const auto broken = [&](ByteView stored) {
      return [stored, &value] {
        const auto part = open({CompressStep{Codec::kZstd}}, stored, value.size());
        if (part) (void)read_in_parts(*part, value.size(), 6);
      };
    };
    EXPECT_THAT(broken(all.view().first(all.size() - 1)),
                FailsWith(Code::kDataLoss, size > 0 ? "skippable" : "zstd"));
    EXPECT_THAT(broken(skippable.view()), FailsWith(Code::kDataLoss, "is empty"));
  }
}

TEST(ChainStream, WrongSizesAndDamageAreErrors) {
  const Bytes value = mixed_bytes(30'000, 7);
  std::mt19937 random(8);
  for (const Codec codec : kCodecs) {
    const Bytes stored = compressed(codec, value);
    const std::vector<ByteStep> steps{CompressStep{codec}};
    const auto decode = [&](ByteView bytes, std::size_t size) {
      const auto stream = open(steps, bytes, size);
      if (!stream) throw Error(Code::kDataLoss, "must be decoded whole");
      return read_in_parts(*stream, size, 9);
    };
    for (const std::size_t size : {value.size() - 1, value.size() + 1})
      EXPECT_THAT([&] { decode(stored, size); }, FailsWith(Code::kDataLoss, ""))
          << codec_name(codec);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{3}, stored.size() / 2, stored.size() - 1})
      EXPECT_THAT([&] { decode(ByteView(stored).first(size), value.size()); },
                  FailsWith(Code::kDataLoss, ""))
          << codec_name(codec) << " " << size;
    Bytes longer = stored;
    longer.push_back(std::byte{0x5a});
    EXPECT_THAT([&] { decode(longer, value.size()); }, FailsWith(Code::kDataLoss, ""))
        << codec_name(codec);
    // Both ways to decode must agree about damaged bytes.
    for (int i = 0; i < 400; ++i) {
      Bytes bad = stored;
      bad[random() % std::min<std::size_t>(bad.size(), i % 2 == 0 ? 64 : bad.size())] ^=
          static_cast<std::byte>(1U << random() % 8);
      Bytes whole(value.size());
      const auto ok = try_call([&] { return decompress_into(codec, bad, whole), true; });
      const auto parts = try_call([&] { return decode(bad, value.size()); });
      // A distance of 0 is an error in parts; the library copies whatever is there.
      if (codec == Codec::kLz4 && !parts.ok()) continue;
      if (ok.ok() && parts.ok()) {
        EXPECT_TRUE(parts.value() == whole) << codec_name(codec);
      } else if (codec != Codec::kLz4) {
        EXPECT_FALSE(parts.ok()) << codec_name(codec);
      }
    }
  }
}

TEST(ChainStream, ChecksumsAndFiltersDecodeInParts) {
  const NumberType i4{.dtype = DType::kInt32}, i2{.dtype = DType::kInt16},
      f4{.dtype = DType::kFloat32};
  const std::vector<ByteStep> kinds[] = {
      {Crc32cStep{}},
      {Crc32cStep{.at_start = true}},
      {ChecksumStep{.kind = Checksum::kCrc32, .at_start = true}},
      {ChecksumStep{.kind = Checksum::kAdler32}},
      {ChecksumStep{.kind = Checksum::kFletcher32}},
  };
  for (const std::size_t size : {0U, 1U, 65'531U, 65'532U, 65'536U, 200'001U}) {
    const Bytes value = mixed_bytes(size, 11);
    for (const auto& steps : kinds) {
      std::uint32_t sum = crc32c(value);
      bool at_start =
          std::holds_alternative<Crc32cStep>(steps[0]) && std::get<Crc32cStep>(steps[0]).at_start;
      if (const auto* other = std::get_if<ChecksumStep>(&steps[0])) {
        sum = other->kind == Checksum::kCrc32     ? crc32(value)
              : other->kind == Checksum::kAdler32 ? adler32(value)
                                                  : fletcher32(value);
        at_start = other->at_start;
      }
      ByteWriter out;
      if (at_start) out.u32(sum);
      out.bytes(value);
      if (!at_start) out.u32(sum);
      Bytes stored = std::move(out).take();
      auto stream = open(steps, stored, size);
      ASSERT_TRUE(stream);
      EXPECT_TRUE(read_in_parts(*stream, size, 12) == value);
      EXPECT_TRUE(stream->has_checksum());
      if (size == 0) continue;
      stored[at_start ? 4 : 0] ^= std::byte{1};
      stream = open(steps, stored, size);
      EXPECT_THAT([&] { stream->skip(size); }, FailsWith(Code::kDataLoss, "mismatch"));
    }
  }
  // The whole-chunk functions say what the parts must be.
  for (const std::vector<ByteStep>& steps :
       {std::vector<ByteStep>{DeltaStep{.decoded = i4, .stored = i2}},
        std::vector<ByteStep>{DeltaStep{.decoded = f4, .stored = f4}},
        std::vector<ByteStep>{CastStep{.decoded = i4, .stored = i2}},
        std::vector<ByteStep>{ScaleStep{.decoded = f4, .stored = i2, .scale = 3, .offset = 1}},
        std::vector<ByteStep>{DeltaStep{.decoded = i4, .stored = i4},
                              CompressStep{Codec::kGzip}}}) {
    const Bytes inner = mixed_bytes(250'000, 13);
    const Bytes stored = steps.size() > 1 ? compressed(Codec::kGzip, inner) : inner;
    const std::size_t size = unfiltered_size(*as_filter(steps[0]), inner);
    Bytes whole(size);
    decode_steps(steps, stored, whole);
    EXPECT_TRUE(read_in_parts(*open(steps, stored, size), size, 14) == whole);
  }
}

TEST(ChainStream, PackedBitsDecodeInParts) {
  for (const std::size_t bits : {1U, 8U, 524'280U, 524'281U, 1'000'003U}) {
    Bytes stored = mixed_bytes(1 + (bits + 7) / 8, 15);
    stored[0] = static_cast<std::byte>((8 - bits % 8) % 8);
    Bytes whole(bits);
    decode_steps(std::vector<ByteStep>{PackBitsStep{}}, stored, whole);
    EXPECT_TRUE(read_in_parts(*open({PackBitsStep{}}, stored, bits), bits, 16) == whole) << bits;
  }
}

TEST(ChainStream, AShuffleNeedsTheWholeChunkUnlessTheOrderIsIrrelevant) {
  const Bytes value = mixed_bytes(100'000, 17);
  const std::vector<ByteStep> steps{ShuffleStep{.element_size = 4}, CompressStep{Codec::kZlib}};
  const Bytes stored = compressed(Codec::kZlib, value);
  std::string why;
  EXPECT_FALSE(ChainStream::open(steps, value_in_memory(stored), value.size(), 1 << 30, why));
  EXPECT_EQ(why, "the codec shuffle needs the whole chunk");
  const auto stream = open(steps, stored, value.size(), ByteOrder::kAny);
  ASSERT_TRUE(stream);
  EXPECT_TRUE(read_in_parts(*stream, value.size(), 18) == value);
}

TEST(ChainStream, AHugeBloscBlockIsNotDecoded) {
  const Bytes value(64U << 20U);
  Bytes stored = compressed(Codec::kBlosc, value);
  const auto block_size = static_cast<std::uint32_t>(value.size() / 2);
  std::memcpy(&stored[8], &block_size, sizeof(block_size));  // of the header
  std::string why;
  EXPECT_FALSE(ChainStream::open(std::vector<ByteStep>{CompressStep{Codec::kBlosc}},
                                 value_in_memory(stored), value.size(), 32U << 20U, why));
  EXPECT_EQ(why, "a block or window of its blosc data is too large");
}

}  // namespace
}  // namespace cairn::zarr
