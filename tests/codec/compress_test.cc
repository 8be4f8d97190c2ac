// compress_test.cc -- what every encoder makes its decoder takes; bounds hold; levels and sizes
// that are none are refused.
#include <cairn/codec/compress.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>

#include <random>

namespace cairn {
namespace {

using cairn::testing::FailsWith;

constexpr Codec kCodecs[] = {Codec::kZstd,  Codec::kGzip, Codec::kZlib,
                             Codec::kBlosc, Codec::kBz2,  Codec::kLz4};

Bytes content(std::size_t n, unsigned values) {
  std::mt19937 random(static_cast<unsigned>(n) + values);
  Bytes bytes(n);
  for (auto& b : bytes) b = static_cast<std::byte>(random() % values);
  return bytes;
}

Bytes compress(Codec codec, const CompressOptions& options, ByteView in) {
  Bytes out(compress_bound(codec, in.size()));
  out.resize(compress_into(codec, options, in, out));
  return out;
}

void check(Codec codec, const CompressOptions& options, const Bytes& in) {
  Bytes out(in.size());
  ASSERT_NO_THROW(decompress_into(codec, compress(codec, options, in), out))
      << codec_name(codec) << " " << options.level << " " << in.size();
  EXPECT_EQ(out, in) << codec_name(codec) << " " << options.level;
}

TEST(Compressors, DecodersTakeWhatTheyMake) {
  for (const Codec codec : kCodecs)
    for (const std::size_t n : {1U, 7U, 100U, 65536U, 300001U})
      for (const unsigned values : {1U, 3U, 256U}) check(codec, {}, content(n, values));
}

TEST(Compressors, TakeEveryLevel) {
  const Bytes in = content(10000, 20);
  for (const Codec codec : kCodecs)
    for (int level = 1; level <= 9; ++level) check(codec, {.level = level}, in);
  for (const int level : {-131072, -5, 0, 22})
    check(Codec::kZstd, {.level = level, .checksum = true}, in);
  for (const Codec codec : {Codec::kGzip, Codec::kZlib, Codec::kBlosc})
    check(codec, {.level = 0}, in);
}

TEST(Compressors, HigherLevelsMakeLess) {
  Bytes in;  // words that come back
  const Bytes words = content(4096, 20);
  for (std::size_t i = 0; i < 20000; ++i)
    in.insert(in.end(), words.begin() + static_cast<std::ptrdiff_t>(i * i % 4000),
              words.begin() + static_cast<std::ptrdiff_t>(i * i % 4000 + 8));
  for (const Codec codec : {Codec::kZstd, Codec::kGzip})
    EXPECT_LT(compress(codec, {.level = 9}, in).size(), compress(codec, {.level = 1}, in).size())
        << codec_name(codec);
}

TEST(Compressors, BloscShufflesAndItsInnerCompressors) {
  const Bytes in = content(40000, 5);
  for (const auto inner : {BloscInner::kBlosclz, BloscInner::kLz4, BloscInner::kLz4hc,
                           BloscInner::kZlib, BloscInner::kZstd})
    for (const auto shuffle :
         {BloscShuffle::kAuto, BloscShuffle::kNone, BloscShuffle::kBytes, BloscShuffle::kBits})
      for (const std::size_t type_size : {1U, 4U, 16U})
        check(Codec::kBlosc,
              {.level = 5,
               .checksum = false,
               .blosc = {.inner = inner, .shuffle = shuffle, .type_size = type_size}},
              in);
  EXPECT_EQ(blosc_inner_from_name("lz4hc"), BloscInner::kLz4hc);
  EXPECT_EQ(blosc_inner_from_name("lzo"), std::nullopt);
  for (const auto inner : {BloscInner::kBlosclz, BloscInner::kSnappy, BloscInner::kZstd})
    EXPECT_EQ(blosc_inner_from_name(blosc_inner_name(inner)), inner);
}

TEST(Compressors, ChecksumOnRequestOnly) {
  const Bytes in = content(1000, 20);
  EXPECT_TRUE(zstd_has_checksum(compress(Codec::kZstd, {.level = 3, .checksum = true}, in)));
  EXPECT_FALSE(zstd_has_checksum(compress(Codec::kZstd, {.level = 3}, in)));
}

// TensorStore takes one frame a chunk, however many threads have made it.
TEST(Compressors, SeveralThreadsMakeOneFrame) {
  const Bytes in = content(20'000'000, 5);
  const CompressOptions options{.level = 1, .checksum = true, .threads = 3};
  const Bytes frame = compress(Codec::kZstd, options, in);
  EXPECT_TRUE(zstd_has_checksum(frame));
  EXPECT_EQ(as_text(decompress_one_zstd_frame(frame, in.size())), as_text(in));
  EXPECT_EQ(compress(Codec::kZstd, options, in), frame) << "the bytes must not depend on chance";
}

TEST(Compressors, RefuseLevelsTheyDoNotHave) {
  const Bytes in = content(10, 20);
  const std::pair<Codec, int> bad[] = {
      {Codec::kZstd, 23}, {Codec::kZstd, -131073}, {Codec::kGzip, 10}, {Codec::kZlib, -1},
      {Codec::kBz2, 0},   {Codec::kBz2, 10},       {Codec::kBlosc, 10}};
  for (const auto& [codec, level] : bad) {
    const CompressOptions options{.level = level};
    const Codec bad_codec = codec;
    EXPECT_THAT([&] { compress(bad_codec, options, in); },
                FailsWith(Code::kInvalidArgument, "level " + std::to_string(options.level)));
  }
}

}  // namespace
}  // namespace cairn
