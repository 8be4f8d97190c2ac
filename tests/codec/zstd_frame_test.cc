// zstd_frame_test.cc -- frames of raw blocks decode to their content, at every size around a limit,
// and notice every flip.
#include <cairn/codec/decompress.h>
#include <cairn/codec/zstd_frame.h>
#include <cairn/error.h>
#include <gtest/gtest.h>
#include <tests/support/damage.h>

#include <algorithm>
#include <functional>
#include <random>

namespace cairn {
namespace {

Bytes random_bytes(std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  Bytes bytes(n);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Bytes joined(const RawZstdFrame& frame) {
  Bytes all;
  for (const ByteView piece : frame.pieces) all.insert(all.end(), piece.begin(), piece.end());
  return all;
}

constexpr std::size_t kSizes[] = {0,      1,      255,    256,    257,     65535,   65536,
                                  65791,  65792,  65793,  65800,  131071,  131072,  131073,
                                  262143, 262144, 262145, 393216, 1000003, 5 << 20U};

TEST(RawZstdFrame, DecodesToItsContent) {
  for (const std::size_t n : kSizes) {
    const Bytes content = random_bytes(n);
    const Bytes frame = joined(make_raw_zstd_frame(content));
    EXPECT_EQ(frame.size(), raw_zstd_frame_size(n)) << n;
    EXPECT_LE(frame.size(), n + 18 + 3 * (n / 131072 + 1)) << n;
    Bytes out(n);
    ASSERT_NO_THROW(decompress_into(Codec::kZstd, frame, out)) << n;
    EXPECT_EQ(out, content) << n;
    EXPECT_EQ(as_text(decompress_one_zstd_frame(frame, n)), as_text(content)) << n;
    EXPECT_TRUE(zstd_has_checksum(frame)) << n;
  }
}

TEST(RawZstdFrame, BorrowsItsContent) {
  const Bytes content = random_bytes(300000);
  const RawZstdFrame frame = make_raw_zstd_frame(content);
  std::size_t borrowed = 0;
  for (const ByteView piece : frame.pieces)
    if (piece.data() >= content.data() && piece.data() < content.data() + content.size())
      borrowed += piece.size();
  EXPECT_EQ(borrowed, content.size());
}

TEST(RawZstdFrame, IsDecodedInAStreamWithoutMuchMemory) {
  const Bytes content = random_bytes(1000003);
  const Bytes frame = joined(make_raw_zstd_frame(content));
  std::size_t at = 0;
  const auto source = [&](MutableByteView piece) {
    std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(at), piece.size(), piece.begin());
    at += piece.size();
    return piece.size();
  };
  const auto stream = ZstdStream::open(source, frame.size(), content.size());
  ASSERT_TRUE(stream);
  EXPECT_TRUE(stream->has_checksum());
  Bytes out(content.size());
  for (std::size_t done = 0; done < out.size(); done += 4099)
    stream->read(
        MutableByteView(out).subspan(done, std::min<std::size_t>(4099, out.size() - done)));
  EXPECT_EQ(out, content);
}

// A frame read from memory; counts the bytes that were asked for.
struct Source {
  ByteView frame;
  std::uint64_t read = 0;

  void operator()(std::uint64_t offset, std::span<const MutableByteView> parts) {
    for (const MutableByteView part : parts) {
      ASSERT_LE(offset + part.size(), frame.size());
      std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(offset), part.size(), part.begin());
      offset += part.size();
      read += part.size();
    }
  }
};

TEST(RawZstdFrame, IsReadStraightToWhereItsContentBelongs) {
  for (const std::size_t n : kSizes) {
    const Bytes content = random_bytes(n);
    const Bytes frame = joined(make_raw_zstd_frame(content));
    Source source{frame};
    Bytes out(n);
    EXPECT_TRUE(read_raw_zstd_frame(std::ref(source), n, 0, out)) << n;
    EXPECT_EQ(out, content) << n;
    EXPECT_EQ(source.read, frame.size()) << n;
  }
}

TEST(RawZstdFrame, APartIsRead) {
  constexpr std::size_t kTogether = 524288;  // bytes that are read at once
  for (const std::size_t n : {std::size_t{300}, kTogether, 3 * kTogether + 70'000}) {
    const Bytes content = random_bytes(n);
    const Bytes frame = joined(make_raw_zstd_frame(content));
    const std::vector<std::size_t> places = {
        0, 1, 299, kTogether - 1, kTogether, kTogether + 1, 2 * kTogether, 3 * kTogether + 5, n};
    for (const std::size_t from : places)
      for (const std::size_t to : places) {
        if (from > to || to > n) continue;
        Bytes out(to - from);
        EXPECT_TRUE(read_raw_zstd_frame(Source{frame}, n, from, out)) << n << " " << from;
        EXPECT_TRUE(std::ranges::equal(out, ByteView(content).subspan(from, to - from)))
            << n << " " << from << " " << to;
      }
  }
}

TEST(RawZstdFrame, APartIsNotReadIfAnyOtherByteIsDamaged) {
  const std::size_t n = 1'200'000;
  Bytes frame = joined(make_raw_zstd_frame(random_bytes(n)));
  Bytes out(1000);
  for (std::size_t i = 0; i < frame.size(); i += 49'999) {
    frame[i] ^= std::byte{1};
    EXPECT_FALSE(read_raw_zstd_frame(Source{frame}, n, 600'000, out)) << i;
    frame[i] ^= std::byte{1};
  }
}

TEST(RawZstdFrame, IsDecodedFromMemory) {
  for (const std::size_t n : kSizes) {
    const Bytes content = random_bytes(n);
    Bytes frame = joined(make_raw_zstd_frame(content));
    Bytes out(n);
    EXPECT_EQ(decode_raw_zstd_block(frame, out), n <= 131072) << n;
    if (n > 131072) continue;
    EXPECT_EQ(out, content) << n;
    for (const std::size_t at : {std::size_t{0}, frame.size() / 2, frame.size() - 1}) {
      frame[at] ^= std::byte{16};
      EXPECT_FALSE(decode_raw_zstd_block(frame, out)) << n << " " << at;
      frame[at] ^= std::byte{16};
    }
    EXPECT_FALSE(decode_raw_zstd_block(ByteView(frame).first(frame.size() - 1), out)) << n;
    frame.push_back(std::byte{0});
    EXPECT_FALSE(decode_raw_zstd_block(frame, out)) << n;
  }
}

// The flips of IsNotReadStraightIfAnyBitIsAnother, for the frames of small arrays.
TEST(RawZstdFrame, IsNotDecodedFromMemoryIfAnyBitIsAnother) {
  for (const std::size_t n : {0U, 1U, 255U, 1024U}) {
    Bytes frame = joined(make_raw_zstd_frame(random_bytes(n)));
    Bytes out(n);
    for (std::size_t i = 0; i < 8 * frame.size(); ++i) {
      const std::byte bit{static_cast<unsigned char>(1U << i % 8)};
      frame[i / 8] ^= bit;
      EXPECT_FALSE(decode_raw_zstd_block(frame, out)) << n << " " << i;
      frame[i / 8] ^= bit;
    }
  }
}

TEST(RawZstdFrame, IsNotReadStraightIfAnyBitIsAnother) {
  for (const std::size_t n : {1U, 300U, 131072U, 600000U}) {
    const Bytes content = random_bytes(n);
    Bytes frame = joined(make_raw_zstd_frame(content));
    Bytes out(n);
    // All of the framing; of the content some bits.
    for (std::size_t i = 0; i < frame.size();
         i += (i % 131075 < 20 || i + 20 > frame.size()) ? 1 : 4099)
      for (unsigned bit = 0; bit < 8; ++bit) {
        frame[i] ^= static_cast<std::byte>(1U << bit);
        EXPECT_FALSE(read_raw_zstd_frame(Source{frame}, n, 0, out)) << n << " " << i << " " << bit;
        frame[i] ^= static_cast<std::byte>(1U << bit);
      }
  }
}

TEST(RawZstdFrame, IsComparedUpToTheFirstDifference) {
  for (const std::size_t n : kSizes) {
    Bytes content = random_bytes(n);
    const Bytes frame = joined(make_raw_zstd_frame(content));
    EXPECT_EQ(is_raw_zstd_frame_of(Source{frame}, frame.size(), content), true) << n;
    EXPECT_EQ(is_raw_zstd_frame_of(Source{frame}, frame.size() + 1, content), std::nullopt) << n;
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      if (n == 0) continue;
      content[at] ^= std::byte{1};
      Source source{frame};
      EXPECT_EQ(is_raw_zstd_frame_of(std::ref(source), frame.size(), content), false) << n;
      EXPECT_LE(source.read, at + (std::size_t{1} << 19U) + 1000) << n;  // and the framing
      content[at] ^= std::byte{1};
    }
  }
}

TEST(RawZstdFrame, IsNotTakenForItsContentIfAnyBitIsAnother) {
  const Bytes content = random_bytes(600'000);
  Bytes frame = joined(make_raw_zstd_frame(content));
  for (std::size_t i = 0; i < frame.size();
       i += (i % 131075 < 20 || i + 20 > frame.size()) ? 1 : 4099) {
    frame[i] ^= std::byte{0x10};
    EXPECT_NE(is_raw_zstd_frame_of(Source{frame}, frame.size(), content), true) << i;
    frame[i] ^= std::byte{0x10};
  }
}

TEST(RawZstdFrame, NoFlippedBitGivesOtherBytes) {
  for (const std::size_t n : {1U, 40U, 300U}) {
    const Bytes content = random_bytes(n);
    const Bytes frame = joined(make_raw_zstd_frame(content));
    const auto same_or_refused = [&](ByteView bad, const std::string& what) {
      Bytes out(n);
      try {
        decompress_into(Codec::kZstd, bad, out);
      } catch (const Error&) {
        return;
      }
      EXPECT_EQ(out, content) << what;  // the descriptor has a bit that means nothing
    };
    cairn::testing::for_each_bit_flip(frame, same_or_refused);
    cairn::testing::for_each_truncation(frame, same_or_refused);
  }
}

}  // namespace
}  // namespace cairn
