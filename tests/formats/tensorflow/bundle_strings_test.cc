// bundle_strings_test.cc -- tensors of strings as TensorFlow stores them, and bytes that are none.
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/formats/tensorflow/index/bundle_strings.h>
#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "tests/formats/golden.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::from_hex;

BundleStrings read(ByteView entry, std::uint64_t count, bool big_endian = false) {
  return read_bundle_strings(count, entry.size(), big_endian,
                             [entry](std::uint64_t offset, MutableByteView out) {
                               ASSERT_LE(offset + out.size(), entry.size());
                               std::memcpy(out.data(), entry.data() + offset, out.size());
                             });
}

Bytes stored(const std::vector<std::string>& strings) {
  std::vector<std::uint64_t> lengths;
  for (const std::string& text : strings) lengths.push_back(text.size());
  Bytes entry = encode_bundle_strings(lengths).bytes;
  for (const std::string& text : strings)
    entry.insert(entry.end(), as_bytes(text).begin(), as_bytes(text).end());
  return entry;
}

TEST(BundleStrings, AreWhatTensorFlowWrites) {
  EXPECT_EQ(stored({"hello"}), from_hex("05d9c69c4368656c6c6f"));
  EXPECT_EQ(stored({}), from_hex("d8ea82a2"));
  EXPECT_EQ(crc32c_masked(encode_bundle_strings({}).crc), 0x640cc1f6U) << "of the entry";
}

TEST(BundleStrings, ComeBack) {
  const std::vector<std::string> strings = {"", std::string(300, 'a'), std::string("\0\xff", 2),
                                            "x"};
  const Bytes entry = stored(strings);
  const BundleStrings found = read(entry, 4);
  EXPECT_THAT(found.lengths, ElementsAre(0, 300, 2, 1));
  EXPECT_EQ(found.start, entry.size() - 303);
  EXPECT_EQ(found.crc, encode_bundle_strings(found.lengths).crc);
}

TEST(BundleStrings, OfManyAreReadInBlocks) {
  std::vector<std::string> strings(400'000);
  for (std::size_t i = 0; i < strings.size(); ++i) strings[i].assign(i % 200, 'x');
  const Bytes entry = stored(strings);
  const BundleStrings found = read(entry, strings.size());
  ASSERT_EQ(found.lengths.size(), strings.size());
  for (std::size_t i = 0; i < strings.size(); i += 999) EXPECT_EQ(found.lengths[i], i % 200);
  EXPECT_EQ(std::accumulate(found.lengths.begin(), found.lengths.end(), found.start), entry.size());
}

TEST(BundleStrings, MayBeBigEndian) {
  std::uint32_t crc = 0;
  const Bytes length = from_hex("00000003");
  crc = crc32c_extend(crc, length);
  ByteWriter entry;
  entry.varint(3).u32_be(crc32c_masked(crc)).text("abc");
  EXPECT_THAT(read(entry.view(), 1, true).lengths, ElementsAre(3));
  EXPECT_THAT([&] { read(entry.view(), 1, false); },
              FailsWith(Code::kDataLoss, "lengths of its strings are damaged"));
}

TEST(BundleStrings, ALengthOfMoreThanFourBytesCountsEightInTheChecksum) {
  const std::vector<std::uint64_t> lengths = {std::uint64_t{1} << 33U};
  const BundleStringsHead head = encode_bundle_strings(lengths);
  Bytes eight(8);
  std::memcpy(eight.data(), lengths.data(), 8);
  EXPECT_EQ(ByteReader(ByteView(head.bytes).last(4)).u32(), crc32c_masked(crc32c(eight)));
}

TEST(BundleStrings, RefusesWhatCannotBe) {
  const Bytes good = stored({"ab", "c"});
  EXPECT_THAT([&] { read(good, 1); },
              FailsWith(Code::kDataLoss, "lengths of its strings are damaged"));
  EXPECT_THAT([&] { read(good, std::uint64_t{1} << 60U); },
              FailsWith(Code::kDataLoss, "do not fit in 9 bytes"));
  EXPECT_THAT([&] { read(ByteView(good).first(3), 2); },
              FailsWith(Code::kDataLoss, "do not fit in 3 bytes"));
  EXPECT_THAT([&] { read(ByteView(good).first(8), 2); },
              FailsWith(Code::kDataLoss, "longer than the 8 bytes"));
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THAT([&] { read(longer, 2); },
              FailsWith(Code::kDataLoss, "1 bytes of its entry follow its last string"));
  EXPECT_THAT([&] { read(from_hex("8080808080"), 1); },
              FailsWith(Code::kDataLoss, "the length of string 0"));
  EXPECT_THAT([&] { read(from_hex("ffffffffffffffffffff7f00000000"), 1); },
              FailsWith(Code::kDataLoss, "varint is too long"));
  // A sum that overflows is no sum.
  ByteWriter huge;
  const std::vector<std::uint64_t> lengths = {~std::uint64_t{0}, 2};
  huge.bytes(encode_bundle_strings(lengths).bytes).u8(0);
  EXPECT_THAT([&] { read(huge.view(), 2); }, FailsWith(Code::kDataLoss, "longer than"));
}

TEST(BundleStrings, NoticesEveryBitOfTheHead) {
  const Bytes good = stored({"ab", "", std::string(200, 'q')});
  const std::size_t head = 4 + 4;
  for (std::size_t bit = 0; bit < 8 * head; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << bit % 8)};
    EXPECT_THROW(read(bad, 3), Error) << bit;
  }
}

}  // namespace
}  // namespace cairn
