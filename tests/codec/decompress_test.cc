#include <cairn/base/checksum.h>
#include <cairn/codec/decompress.h>
#include <cairn/io/file.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/sanitizers.h"

namespace cairn {
namespace {

using testing::Damage;
using testing::FailsWith;

constexpr std::uint64_t kMax = std::uint64_t{1} << 40U;

Bytes golden(const std::string& name) {
  return read_file(std::string(CAIRN_GOLDEN_DIR) +
                   "/compress/numcodecs-0.16.6_tensorstore-0.1.86/" + name);
}

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

Bytes decoded_into(Codec codec, ByteView in, std::size_t size) {
  Bytes out(size);
  decompress_into(codec, in, out);
  return out;
}

// A file that a real encoder wrote, and whether a checksum of the format covers the value.
struct Golden {
  const char* name;
  Codec codec;
  bool checksum = false;
};

const Golden kGoldens[] = {
    {"zstd_level1", Codec::kZstd},
    {"zstd_level19", Codec::kZstd},
    {"zstd_checksum", Codec::kZstd, true},
    {"zstd_two_frames", Codec::kZstd, true},
    {"gzip", Codec::kGzip, true},
    {"gzip_two_members", Codec::kGzip, true},
    {"zlib", Codec::kZlib, true},
    {"bz2", Codec::kBz2, true},
    {"bz2_two_streams", Codec::kBz2, true},
    {"lz4", Codec::kLz4},
    {"blosc_blosclz_shuffle0", Codec::kBlosc},
    {"blosc_blosclz_shuffle1", Codec::kBlosc},
    {"blosc_blosclz_shuffle2", Codec::kBlosc},
    {"blosc_lz4_shuffle0", Codec::kBlosc},
    {"blosc_lz4_shuffle1", Codec::kBlosc},
    {"blosc_lz4_shuffle2", Codec::kBlosc},
    {"blosc_lz4hc_shuffle0", Codec::kBlosc},
    {"blosc_lz4hc_shuffle1", Codec::kBlosc},
    {"blosc_lz4hc_shuffle2", Codec::kBlosc},
    {"blosc_zlib_shuffle0", Codec::kBlosc},
    {"blosc_zlib_shuffle1", Codec::kBlosc},
    {"blosc_zlib_shuffle2", Codec::kBlosc},
    {"blosc_zstd_shuffle0", Codec::kBlosc},
    {"blosc_zstd_shuffle1", Codec::kBlosc},
    {"blosc_zstd_shuffle2", Codec::kBlosc},
    {"blosc_blocks", Codec::kBlosc},
    {"blosc_stored", Codec::kBlosc},
    {"blosc_tensorstore", Codec::kBlosc},
};

class CompressGolden : public ::testing::TestWithParam<Golden> {};

TEST_P(CompressGolden, DecodesToTheValue) {
  const Bytes in = golden(GetParam().name);
  const Bytes raw = golden("raw");
  EXPECT_EQ(decoded_into(GetParam().codec, in, raw.size()), raw);
  EXPECT_EQ(decompress(GetParam().codec, in, raw.size()), raw);
  EXPECT_EQ(decompress(GetParam().codec, in, kMax), raw);
}

TEST_P(CompressGolden, AnotherSizeThanTheExpectedOneIsRefused) {
  const Codec codec = GetParam().codec;
  const Bytes in = golden(GetParam().name);
  const std::size_t size = golden("raw").size();
  for (const std::size_t less : {std::size_t{0}, std::size_t{1}, size / 2, size - 1}) {
    EXPECT_THAT([&] { decoded_into(codec, in, less); },
                FailsWith(Code::kDataLoss, "more than the expected " + std::to_string(less)))
        << less;
    EXPECT_THAT([&] { decompress(codec, in, less); },
                FailsWith(Code::kDataLoss, "more than the expected " + std::to_string(less)))
        << less;
  }
  EXPECT_THAT([&] { decoded_into(codec, in, size + 1); },
              FailsWith(Code::kDataLoss,
                        std::string(codec_name(codec)) + " data: decodes to 3200 bytes, 3201 are"));
}

// A cut that leaves whole frames or members leaves a shorter value; nothing else may pass.
TEST_P(CompressGolden, EveryTruncationIsRefused) {
  const Codec codec = GetParam().codec;
  const Bytes raw = golden("raw");
  const bool in_two = std::string_view(GetParam().name).find("_two_") != std::string_view::npos;
  std::size_t accepted = 0;
  testing::for_each_truncation(golden(GetParam().name), [&](ByteView bad, const std::string& what) {
    EXPECT_THAT([&] { decoded_into(codec, bad, raw.size()); }, FailsWith(Code::kDataLoss)) << what;
    try {
      const Bytes part = decompress(codec, bad, kMax);
      ++accepted;
      EXPECT_EQ(part, Bytes(raw.begin(), raw.begin() + static_cast<std::ptrdiff_t>(raw.size() / 2)))
          << what;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kDataLoss) << what;
    }
  });
  EXPECT_EQ(accepted, in_two ? 1U : 0U);
}

TEST_P(CompressGolden, TrailingBytesAreRefused) {
  for (const auto& more : {bytes_of({0}), bytes_of({0x28, 0xb5}), Bytes(100, std::byte{0xff})}) {
    Bytes in = golden(GetParam().name);
    in.insert(in.end(), more.begin(), more.end());
    EXPECT_THAT([&] { decoded_into(GetParam().codec, in, 3200); }, FailsWith(Code::kDataLoss));
    EXPECT_THAT([&] { decompress(GetParam().codec, in, kMax); }, FailsWith(Code::kDataLoss));
  }
}

TEST_P(CompressGolden, AFlippedBitIsNeverAWrongValueWhereAChecksumCoversIt) {
  const Codec codec = GetParam().codec;
  const Bytes raw = golden("raw");
  // libbz2 is slow and is not compiled here, so a sanitizer sees as much in a sample of the flips.
  const int step = codec == Codec::kBz2 ? testing::kKillStep : 1;
  int flips = 0;
  testing::for_each_bit_flip(golden(GetParam().name), [&](ByteView bad, const std::string& what) {
    if (flips++ % step != 0) return;
    try {
      const Bytes value = decoded_into(codec, bad, raw.size());
      if (GetParam().checksum) {
        EXPECT_EQ(value, raw) << what;
      }
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kDataLoss) << what;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Files, CompressGolden, ::testing::ValuesIn(kGoldens),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Compress, EmptyValues) {
  for (const auto& empty : {std::pair("zstd_empty", Codec::kZstd),
                            {"gzip_empty", Codec::kGzip},
                            {"bz2_empty", Codec::kBz2}}) {
    const auto& name = empty.first;
    const Codec codec = empty.second;
    const Bytes in = golden(name);
    EXPECT_TRUE(decompress(codec, in, 0).empty()) << name;
    EXPECT_NO_THROW(decompress_into(codec, in, {})) << name;
    EXPECT_THAT([&] { decoded_into(codec, in, 1); },
                FailsWith(Code::kDataLoss, "decodes to 0 bytes, 1 are expected"))
        << name;
  }
  const Bytes lz4 = bytes_of({0, 0, 0, 0, 0});
  EXPECT_TRUE(decompress(Codec::kLz4, lz4, 10).empty());
  EXPECT_NO_THROW(decompress_into(Codec::kLz4, lz4, {}));
}

TEST(Compress, NothingIsNoEncodingOfNothing) {
  for (const Codec codec :
       {Codec::kZstd, Codec::kGzip, Codec::kZlib, Codec::kBlosc, Codec::kBz2, Codec::kLz4}) {
    EXPECT_THAT([&] { decompress(codec, {}, kMax); }, FailsWith(Code::kDataLoss, codec_name(codec)))
        << codec_name(codec);
    EXPECT_THAT([&] { decompress_into(codec, {}, {}); },
                FailsWith(Code::kDataLoss, codec_name(codec)))
        << codec_name(codec);
  }
}

TEST(Compress, EachCodecRefusesTheOthersFiles) {
  for (const Golden& file : kGoldens)
    for (const Codec codec :
         {Codec::kZstd, Codec::kGzip, Codec::kZlib, Codec::kBlosc, Codec::kBz2, Codec::kLz4})
      if (codec != file.codec) {
        EXPECT_THAT([&] { decoded_into(codec, golden(file.name), 3200); },
                    FailsWith(Code::kDataLoss))
            << file.name;
      }
}

// Were such a claim believed, the allocation would end the test.
TEST(Compress, AHugeClaimOfASmallInputIsNotBelieved) {
  // declares 2^60 bytes, holds none
  Bytes zstd = bytes_of({0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x01, 0, 0});
  EXPECT_THAT([&] { decompress(Codec::kZstd, zstd, std::uint64_t{1} << 62U); },
              FailsWith(Code::kDataLoss));
  Bytes lz4 = bytes_of({0, 0, 0, 0x7e, 0x10, 0x41});
  EXPECT_THAT([&] { decompress(Codec::kLz4, lz4, kMax); },
              FailsWith(Code::kDataLoss, "cannot decode to the 2113929216 bytes"));
  Bytes blosc = golden("blosc_lz4_shuffle1");
  testing::put_at(blosc, 4, std::uint32_t{0x7f000000});
  EXPECT_THAT([&] { decompress(Codec::kBlosc, blosc, kMax); },
              FailsWith(Code::kDataLoss, "cannot decode to the 2130706432 bytes"));
}

TEST(Compress, BloscHeaders) {
  const Damage kBad[] = {
      {"shorter than a header", [](Bytes& b) { b.resize(15); }, Code::kDataLoss,
       "shorter than its header"},
      {"another format version", [](Bytes& b) { b[0] = std::byte{3}; }, Code::kDataLoss,
       "blosc data"},
      {"element size 0", [](Bytes& b) { b[3] = std::byte{0}; }, Code::kDataLoss, "element size 0"},
      {"one byte less", [](Bytes& b) { b.pop_back(); }, Code::kDataLoss,
       "header does not fit its 1078 bytes"},
      {"one byte more", [](Bytes& b) { b.push_back({}); }, Code::kDataLoss,
       "header does not fit its 1080 bytes"},
      {"a larger value", [](Bytes& b) { testing::put_at(b, 4, 3201); }, Code::kDataLoss,
       "more than the expected 3200"},
      {"block size 0", [](Bytes& b) { testing::put_at(b, 8, 0); }, Code::kDataLoss, "blosc data"},
      {"a block larger than the value", [](Bytes& b) { testing::put_at(b, 8, 4000); },
       Code::kDataLoss, "blosc data"},
      {"a negative block size", [](Bytes& b) { testing::put_at(b, 8, -4); }, Code::kDataLoss,
       "blosc data"},
      {"a block outside the buffer", [](Bytes& b) { testing::put_at(b, 16, 1 << 20); },
       Code::kDataLoss, "is damaged"},
      {"an unknown inner codec", [](Bytes& b) { b[2] |= std::byte{0xe0}; }, Code::kDataLoss,
       "is damaged"},
  };
  testing::check_damages(golden("blosc_lz4_shuffle1"), kBad,
                         [](ByteView in) { return decoded_into(Codec::kBlosc, in, 3200); });
}

TEST(Compress, ZstdFrames) {
  const Damage kBad[] = {
      {"another magic number", [](Bytes& b) { b[0] ^= std::byte{1}; }, Code::kDataLoss,
       "does not start with a frame's magic number"},
      {"the magic number of zstd 0.7", [](Bytes& b) { b[0] = std::byte{0x27}; }, Code::kDataLoss,
       "does not start with a frame's magic number"},
      {"a skippable frame that claims more than there is",
       [](Bytes& b) {
         testing::insert_at(b, 0, bytes_of({0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0x7f, 9}));
       },
       Code::kDataLoss, ""},
      {"another checksum", [](Bytes& b) { b.back() ^= std::byte{1}; }, Code::kDataLoss, "checksum"},
      {"only its header", [](Bytes& b) { b.resize(7); }, Code::kDataLoss, "truncated"},
      {"a dictionary",
       [](Bytes& b) {
         b[4] |= std::byte{1};
         testing::insert_at(b, 5, bytes_of({7}));
       },
       Code::kDataLoss, "zstd data"},
  };
  testing::check_damages(golden("zstd_checksum"), kBad,
                         [](ByteView in) { return decoded_into(Codec::kZstd, in, 3200); });
  testing::check_damages(golden("zstd_checksum"), kBad,
                         [](ByteView in) { return decompress(Codec::kZstd, in, kMax); });
  testing::check_damages(golden("zstd_checksum"), kBad,
                         [](ByteView in) { return decompress_one_zstd_frame(in, kMax); });
}

// RFC 8878 allows such frames anywhere between others; pzstd writes them.
TEST(Compress, SkippableFramesAreSkipped) {
  const Bytes frame = golden("zstd_checksum");
  const Bytes value = decompress(Codec::kZstd, frame, kMax);
  const Bytes skippable = bytes_of({0x5f, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9});
  for (const std::size_t at : {std::size_t{0}, frame.size()}) {
    Bytes both = frame;
    both.insert(both.begin() + static_cast<std::ptrdiff_t>(at), skippable.begin(), skippable.end());
    EXPECT_EQ(decompress(Codec::kZstd, both, kMax), value) << at;
  }
}

// Decodes in each of the three ways.
void decode_all(Codec codec, ByteView in, std::size_t size, Frames frames) {
  Bytes out(size);
  decompress_into(codec, in, out, frames);
  EXPECT_EQ(decompress(codec, in, kMax, frames), out);
  ByteView left = in;
  const ByteSource source = [&](MutableByteView piece) {
    const std::size_t n = std::min(piece.size(), left.size());
    std::copy_n(left.begin(), n, piece.begin());
    left = left.subspan(n);
    return n;
  };
  Bytes streamed(size);
  const auto stream = open_decompressor(codec, source, in.size(), frames);
  EXPECT_EQ(stream->read(streamed), size);
  std::byte more{};
  EXPECT_EQ(stream->read({&more, 1}), 0U);
  EXPECT_EQ(streamed, out);
}

// What may surround the first frame.
TEST(Compress, FramesOfAValue) {
  const Bytes skippable = bytes_of({0x5f, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9});
  const auto joined = [](const std::vector<Bytes>& parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  struct Row {
    std::string name;
    Codec codec;
    Bytes in;
    std::size_t frames;         // each decodes to `raw`
    bool only_skippable_after;  // kOneAndSkippable allows it, kOne does not
    bool is_one;
  };
  const Bytes raw = golden("raw");
  const Bytes zstd = golden("zstd_checksum");
  std::vector<Row> rows = {
      {"skippable in front", Codec::kZstd, joined({skippable, zstd}), 1, false, false},
      {"skippable behind", Codec::kZstd, joined({zstd, skippable}), 1, true, false},
      {"two skippable behind", Codec::kZstd, joined({zstd, skippable, skippable}), 1, true, false},
      {"skippable between", Codec::kZstd, joined({zstd, skippable, zstd}), 2, false, false},
  };
  for (const auto& [name, codec] : {std::pair("zstd_level1", Codec::kZstd),
                                    {"gzip", Codec::kGzip},
                                    {"bz2", Codec::kBz2},
                                    {"zlib", Codec::kZlib}}) {
    const Bytes one = golden(name);
    rows.push_back({std::string("one of ") + name, codec, one, 1, false, true});
    if (codec == Codec::kZlib) continue;  // never has more than one
    rows.push_back({std::string("two of ") + name, codec, joined({one, one}), 2, false, false});
  }
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const std::size_t size = row.frames * raw.size();
    decode_all(row.codec, row.in, size, Frames::kAny);
    for (const Frames frames : {Frames::kOne, Frames::kOneAndSkippable}) {
      const auto decode = [&] { decode_all(row.codec, row.in, size, frames); };
      if (row.is_one || (row.only_skippable_after && frames == Frames::kOneAndSkippable))
        decode();
      else
        EXPECT_THAT(decode,
                    FailsWith(Code::kDataLoss, std::string(codec_name(row.codec)) + " data: "));
    }
  }
}

TEST(Compress, AFrameThatDoesNotDeclareItsSize) {
  const Bytes in = golden("zstd_ocdbt_node");
  const RawBytes decoded = decompress_one_zstd_frame(in, 1U << 20U);
  const Bytes body(decoded.begin(), decoded.end());
  EXPECT_EQ(body.size(), 14014U);
  EXPECT_EQ(crc32c(body), 0x23c219a1U);
  EXPECT_EQ(decompress(Codec::kZstd, in, body.size()), body);
  EXPECT_EQ(decoded_into(Codec::kZstd, in, body.size()), body);
  EXPECT_THAT([&] { decompress_one_zstd_frame(in, body.size() - 1); },
              FailsWith(Code::kDataLoss, "more than the expected"));
  EXPECT_FALSE(zstd_has_checksum(in));
}

TEST(Compress, ExactlyOneFrame) {
  EXPECT_EQ(as_text(decompress_one_zstd_frame(golden("zstd_level1"), 3200)),
            as_text(golden("raw")));
  EXPECT_TRUE(decompress_one_zstd_frame(golden("zstd_empty"), 0).empty());
  EXPECT_THAT([&] { decompress_one_zstd_frame(golden("zstd_two_frames"), kMax); },
              FailsWith(Code::kDataLoss, "bytes follow its only frame"));
  Bytes longer = golden("zstd_level1");
  longer.push_back(std::byte{0});
  EXPECT_THAT([&] { decompress_one_zstd_frame(longer, kMax); },
              FailsWith(Code::kDataLoss, "1 bytes follow its only frame"));
  EXPECT_THAT([&] { decompress_one_zstd_frame({}, kMax); }, FailsWith(Code::kDataLoss, "is empty"));
}

TEST(Compress, WhetherAllFramesCarryAChecksum) {
  EXPECT_TRUE(zstd_has_checksum(golden("zstd_checksum")));
  EXPECT_TRUE(zstd_has_checksum(golden("zstd_two_frames")));
  EXPECT_FALSE(zstd_has_checksum(golden("zstd_level1")));
  Bytes mixed = golden("zstd_checksum");
  const Bytes plain = golden("zstd_level1");
  mixed.insert(mixed.end(), plain.begin(), plain.end());
  EXPECT_FALSE(zstd_has_checksum(mixed));
  EXPECT_FALSE(zstd_has_checksum({}));
  EXPECT_FALSE(zstd_has_checksum(as_bytes("no zstd")));
  const Bytes good = golden("zstd_checksum");
  EXPECT_FALSE(zstd_has_checksum(ByteView(good).first(good.size() - 1)));
}

// Sizes around zstd's block of 128 KiB and beyond the first guess of the growing decoder; text that
// compresses well, and not. A stream over bytes in memory, which must outlive it; at most `piece`
// of them are handed out at a time.
std::unique_ptr<ZstdStream> stream_of(ByteView encoded, std::uint64_t decoded_size,
                                      std::size_t piece = 1000) {
  auto at = std::make_shared<std::size_t>(0);
  return ZstdStream::open(
      [encoded, at, piece](MutableByteView out) {
        const std::size_t n = std::min({out.size(), piece, encoded.size() - *at});
        std::copy_n(encoded.begin() + static_cast<std::ptrdiff_t>(*at), n, out.begin());
        *at += n;
        return n;
      },
      encoded.size(), decoded_size);
}

Bytes wavy_bytes(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * i / 7 + i / 1000) & 0x3fU);
  return bytes;
}

TEST(ZstdStream, PartsOfAnySizeAreTheValue) {
  const Bytes value = wavy_bytes(700'000);
  for (const bool checksum : {false, true}) {
    const Bytes encoded = compress_zstd(value, 1, checksum);
    for (const std::size_t part : {1000U, 99'991U, 350'000U, 700'000U}) {
      const auto stream = stream_of(encoded, value.size());
      ASSERT_TRUE(stream);
      EXPECT_EQ(stream->has_checksum(), checksum);
      Bytes out(value.size());
      for (std::size_t at = 0; at < out.size(); at += part)
        stream->read(MutableByteView(out).subspan(at, std::min(part, out.size() - at)));
      EXPECT_TRUE(out == value) << part;
      EXPECT_EQ(stream->position(), value.size());
    }
    const auto stream = stream_of(encoded, value.size());
    stream->skip(500'000);
    Bytes out(10);
    stream->read(out);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), value.begin() + 500'000));
    Bytes rest(value.size());
    EXPECT_THROW(stream->read(rest), Error);
  }
}

TEST(ZstdStream, DamageIsSeenAtTheEndAtTheLatest) {
  const Bytes value = wavy_bytes(5000);
  const Bytes encoded = compress_zstd(value, 1, true);
  const auto walk = [&](ByteView bytes) {
    const auto stream = stream_of(bytes, value.size(), 100);
    if (!stream) throw Error(Code::kDataLoss, "not opened");
    stream->skip(value.size());
  };
  EXPECT_NO_THROW(walk(encoded));
  testing::for_each_truncation(encoded, [&](ByteView bad, const std::string& what) {
    EXPECT_THROW(walk(bad), Error) << what;
  });
  testing::for_each_bit_flip(encoded, [&](ByteView bad, const std::string& what) {
    Bytes out(value.size());
    try {
      const auto stream = stream_of(bad, value.size(), 100);
      if (!stream) return;
      stream->read(out);
      EXPECT_TRUE(out == value) << what;  // the flipped bit has no meaning
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kDataLoss) << e.message();
    }
  });
  Bytes longer = encoded;
  longer.push_back(std::byte{0});
  EXPECT_THROW(walk(longer), Error);
  EXPECT_FALSE(stream_of(encoded, value.size() + 1));
}

TEST(ZstdStream, AHugeWindowIsNotAllocated) {
  // Magic; a descriptor with an eight-byte size and a window byte; the largest window there is; a
  // size of 2^40.
  const Bytes header{std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd},
                     std::byte{0xc0}, std::byte{0xa8}, std::byte{0},    std::byte{0},
                     std::byte{0},    std::byte{0},    std::byte{0},    std::byte{1},
                     std::byte{0},    std::byte{0},    std::byte{1},    std::byte{0}};
  EXPECT_FALSE(stream_of(header, std::uint64_t{1} << 40U));
}

TEST(Compress, ZstdRoundTrips) {
  std::mt19937_64 random(5);
  for (const std::size_t size : {0U, 1U, 100U, 131072U, 131073U, 5000000U}) {
    for (const bool noise : {false, true}) {
      Bytes raw(size);
      if (noise)
        for (auto& b : raw) b = static_cast<std::byte>(random());
      for (const int level : {-5, 0, 1, 19}) {
        if (level == 19 && size > 1000000) continue;  // slow, and nothing new
        for (const bool checksum : {false, true}) {
          const Bytes packed = compress_zstd(raw, level, checksum);
          EXPECT_EQ(zstd_has_checksum(packed), checksum);
          EXPECT_EQ(decompress(Codec::kZstd, packed, size), raw);
          EXPECT_EQ(decoded_into(Codec::kZstd, packed, size), raw);
          EXPECT_EQ(as_text(decompress_one_zstd_frame(packed, kMax)), as_text(raw));
        }
      }
    }
  }
}

TEST(Compress, CompressingDoesNotRememberTheCallBefore) {
  const Bytes raw = golden("raw");
  const Bytes first = compress_zstd(raw, 1, false);
  (void)compress_zstd(raw, 19, true);
  EXPECT_EQ(compress_zstd(raw, 1, false), first);
}

}  // namespace
}  // namespace cairn
