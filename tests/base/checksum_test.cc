#include <cairn/base/checksum.h>
#include <cairn/base/checksum_portable.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

namespace cairn {
namespace {

// Bit by bit from the definition: polynomial 0x1edc6f41 reflected, all ones before and after.
std::uint32_t slow_crc32c(ByteView bytes) {
  std::uint32_t crc = ~0U;
  for (const std::byte b : bytes) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int i = 0; i < 8; ++i) crc = crc >> 1U ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

Bytes ramp(int first, int step) {
  Bytes bytes(32);
  for (int i = 0; i < 32; ++i)
    bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(first + step * i);
  return bytes;
}

TEST(Crc32c, VectorsOfRfc3720) {
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0x00})), 0x8a9136aaU);
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0xff})), 0x62a8ab43U);
  EXPECT_EQ(crc32c(ramp(0, 1)), 0x46dd794eU);
  EXPECT_EQ(crc32c(ramp(31, -1)), 0x113fdb5cU);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, AgreesWithItsDefinitionAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  Bytes bytes(700);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  for (std::size_t offset = 0; offset < 9; ++offset)
    for (std::size_t n = 0; n + offset < bytes.size(); n += n < 80 ? 1 : 37) {
      const ByteView part = ByteView(bytes).subspan(offset, n);
      ASSERT_EQ(crc32c(part), slow_crc32c(part)) << n << " bytes at " << offset;
    }
}

// Those of a static program beside those of an ordinary one.
TEST(PortableChecksums, AgreeAtEveryLengthAndAlignment) {
  std::mt19937 random(2);
  Bytes bytes(700);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  for (std::size_t offset = 0; offset < 9; ++offset)
    for (std::size_t n = 0; n + offset < bytes.size(); n += n < 80 ? 1 : 37) {
      const ByteView part = ByteView(bytes).subspan(offset, n);
      const auto before = static_cast<std::uint32_t>(random());
      ASSERT_EQ(portable_crc32c(before, part), crc32c_extend(before, part))
          << n << " at " << offset;
      ASSERT_EQ(table_crc32c(before, part), crc32c_extend(before, part)) << n << " at " << offset;
      ASSERT_EQ(portable_crc32(before, part), crc32_extend(before, part)) << n << " at " << offset;
      ASSERT_EQ(portable_adler32(1, part), adler32(part)) << n << " at " << offset;
    }
}

TEST(PortableChecksums, MatchPublishedVectors) {
  EXPECT_EQ(portable_crc32c(0, ramp(31, -1)), 0x113fdb5cU);
  EXPECT_EQ(table_crc32c(0, ramp(31, -1)), 0x113fdb5cU);
  EXPECT_EQ(portable_crc32(0, as_bytes("123456789")), 0xcbf43926U);
  EXPECT_EQ(portable_adler32(1, as_bytes("123456789")), 0x091e01deU);
  EXPECT_EQ(portable_adler32(1, {}), 1U);
}

TEST(Crc32c, ExtendContinuesAnywhere) {
  const ByteView text = as_bytes("123456789");
  for (std::size_t n = 0; n <= text.size(); ++n)
    EXPECT_EQ(crc32c_extend(crc32c(text.first(n)), text.subspan(n)), 0xe3069283U) << n;
}

TEST(Crc32c, CombinesThoseOfParts) {
  std::mt19937 random(5);
  Bytes bytes(3000);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}, bytes.size()}) {
    const ByteView a = ByteView(bytes).first(n), b = ByteView(bytes).subspan(n);
    EXPECT_EQ(crc32c_combine(crc32c(a), crc32c(b), b.size()), crc32c(bytes)) << n;
    EXPECT_EQ(crc32_combine(crc32(a), crc32(b), b.size()), crc32(bytes)) << n;
  }
}

TEST(Crc32c, MaskedIsUnmaskedAgain) {
  EXPECT_EQ(crc32c_masked(0), 0xa282ead8U);
  for (const std::uint32_t crc : {0U, 1U, 0xe3069283U, 0xffffffffU})
    EXPECT_EQ(crc32c_unmasked(crc32c_masked(crc)), crc);
}

}  // namespace
}  // namespace cairn
