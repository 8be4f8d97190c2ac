#include <cairn/base/byte_io.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/support/check_codec.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

TEST(ByteReader, ReadsFixedIntegersInBothByteOrders) {
  const Bytes bytes = bytes_of({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(ByteReader(bytes).u8(), 0x01);
  EXPECT_EQ(ByteReader(bytes).u16(), 0x0201);
  EXPECT_EQ(ByteReader(bytes).u32(), 0x04030201U);
  EXPECT_EQ(ByteReader(bytes).u64(), 0x0807060504030201U);
  EXPECT_EQ(ByteReader(bytes).u16_be(), 0x0102);
  EXPECT_EQ(ByteReader(bytes).u32_be(), 0x01020304U);
  EXPECT_EQ(ByteReader(bytes).u64_be(), 0x0102030405060708U);
  EXPECT_EQ(ByteReader(bytes_of({0xfe, 0xff, 0xff, 0xff})).i32(), -2);
}

TEST(ByteReader, NamesTheOffsetOfAShortRead) {
  const Bytes bytes = bytes_of({1, 2, 3});
  ByteReader in(bytes);
  in.u8();
  EXPECT_THAT([&] { in.u32(); }, FailsWith(Code::kDataLoss, "4 bytes wanted, 2 left at byte 1"));
  EXPECT_EQ(in.offset(), 1U) << "a failed read takes nothing";
  EXPECT_THAT([&] { in.take(std::numeric_limits<std::uint64_t>::max()); },
              FailsWith(Code::kDataLoss, "unexpected end"));
}

TEST(ByteReader, FinishRefusesLeftOverBytes) {
  const Bytes bytes = bytes_of({1, 2});
  ByteReader in(bytes);
  in.u8();
  EXPECT_THAT([&] { in.finish(); }, FailsWith(Code::kDataLoss, "1 bytes are left over at byte 1"));
  in.u8();
  in.finish();
  EXPECT_TRUE(in.at_end());
}

TEST(ByteReader, TakesTextWithoutACopy) {
  const std::string text = "abcdef";
  ByteReader in(as_bytes(text));
  EXPECT_EQ(in.text(2), "ab");
  EXPECT_EQ(in.text(0), "");
  EXPECT_EQ(in.text(4).data(), text.data() + 2);
}

TEST(Varint, KnownSpellings) {
  const struct {
    std::uint64_t value;
    Bytes spelling;
  } kCases[] = {
      {0, bytes_of({0x00})},
      {1, bytes_of({0x01})},
      {127, bytes_of({0x7f})},
      {128, bytes_of({0x80, 0x01})},
      {300, bytes_of({0xac, 0x02})},
      {8388608, bytes_of({0x80, 0x80, 0x80, 0x04})},
      {0xffffffffU, bytes_of({0xff, 0xff, 0xff, 0xff, 0x0f})},
      {~std::uint64_t{0}, bytes_of({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})},
  };
  for (const auto& c : kCases) {
    ByteWriter out;
    out.varint(c.value);
    EXPECT_EQ(out.view().size(), c.spelling.size());
    EXPECT_EQ(std::move(out).take(), c.spelling) << c.value;
    ByteReader in(c.spelling);
    EXPECT_EQ(in.varint(), c.value);
    in.finish();
  }
}

TEST(Varint, EveryLengthRoundTrips) {
  for (int shift = 0; shift < 64; ++shift) {
    for (const std::uint64_t value : {std::uint64_t{1} << shift, (std::uint64_t{1} << shift) - 1,
                                      (std::uint64_t{1} << shift) + 1}) {
      ByteWriter out;
      out.varint(value);
      ByteReader in(out.view());
      EXPECT_EQ(in.varint(), value);
      in.finish();
    }
  }
}

TEST(Varint, OverLongSpellingsUpToTheLimitOfTheWidth) {
  const auto padded = [](std::size_t n) {  // the value 5 in n bytes
    Bytes bytes(n, std::byte{0x80});
    bytes.front() = n == 1 ? std::byte{5} : std::byte{0x85};
    if (n > 1) bytes.back() = std::byte{0};
    return bytes;
  };
  for (std::size_t n = 1; n <= 12; ++n) {
    const Bytes bytes = padded(n);
    const auto read = [&](std::uint64_t max) { return ByteReader(bytes).varint(max); };
    if (n <= 5)
      EXPECT_EQ(read(0xffff), 5U);
    else
      EXPECT_THAT([&] { read(0xffff); }, FailsWith(Code::kDataLoss, "too long at byte 0"));
    if (n <= 10)
      EXPECT_EQ(read(~std::uint64_t{0}), 5U);
    else
      EXPECT_THAT([&] { read(~std::uint64_t{0}); }, FailsWith(Code::kDataLoss, "too long"));
  }
}

TEST(Varint, RangeAndTruncation) {
  EXPECT_THAT(
      [&] {
        ByteReader(bytes_of({0x80, 0x80, 0x04})).varint(65535);
      },
      FailsWith(Code::kDataLoss, "varint 65536 exceeds 65535 at byte 0"));
  EXPECT_EQ(ByteReader(bytes_of({0xff, 0xff, 0x03})).varint(65535), 65535U);
  EXPECT_THAT(
      [&] {
        ByteReader(bytes_of({0x80, 0x80})).varint();
      },
      FailsWith(Code::kDataLoss, "unexpected end of data"));
  EXPECT_THAT([&] { ByteReader({}).varint(); },
              FailsWith(Code::kDataLoss, "unexpected end of data"));
  // The tenth byte holds one bit of 64.
  Bytes wide(10, std::byte{0xff});
  wide.back() = std::byte{2};
  EXPECT_THAT([&] { ByteReader(wide).varint(); }, FailsWith(Code::kDataLoss, "too long"));
}

struct Record {
  std::uint8_t a = 0;
  std::uint16_t b = 0;
  std::uint32_t c = 0;
  std::uint64_t d = 0;
  std::int32_t e = 0;
  std::uint32_t f = 0;
  std::string g;
  bool operator==(const Record&) const = default;
};

TEST(ByteIo, WriterAndReaderAreAPair) {
  const Record record{0xfe, 0x1234, 0x89abcdef, 0x0123456789abcdef, -7, 0x0cdb3a2a, "text"};
  const auto encode = [](const Record& r) {
    ByteWriter out;
    out.u8(r.a).u16(r.b).u32(r.c).u64(r.d).i32(r.e).u32_be(r.f).varint(r.g.size()).text(r.g);
    return std::move(out).take();
  };
  const auto decode = [](ByteView bytes) {
    ByteReader in(bytes);
    Record r;
    r.a = in.u8();
    r.b = in.u16();
    r.c = in.u32();
    r.d = in.u64();
    r.e = in.i32();
    r.f = in.u32_be();
    r.g = in.text(in.varint());
    in.finish();
    return r;
  };
  testing::check_codec(record, encode, decode, testing::Guard::kNone);
}

}  // namespace
}  // namespace cairn
