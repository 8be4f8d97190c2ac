// shard_test.cc -- the shard index: where it is, what it says, how its damage is named; and partial
// reads of shards.
#include <cairn/array/box.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/read/array.h>
#include <gtest/gtest.h>
#include <tests/support/damage.h>
#include <tests/support/matchers.h>
#include <tests/zarr/build_array.h>
#include <tests/zarr/golden.h>

namespace cairn::zarr {
namespace {

using cairn::testing::Damage;
using cairn::testing::FailsWith;
using testing::BuiltArray;
using testing::Packing;

// 4 x 4 uint8 in one shard of four inner chunks, values 0 to 15.
ShardCodec two_by_two() {
  ShardCodec codec;
  codec.chunk_shape = {2, 2};
  codec.grid = {2, 2};
  codec.codecs.shape = {2, 2};
  codec.codecs.nbytes = 4;
  return codec;
}
Bytes example() {
  return testing::from_hex(
      "0001040502030607"
      "08090c0d0a0b0e0f"
      "00000000000000000400000000000000"
      "04000000000000000400000000000000"
      "08000000000000000400000000000000"
      "0c000000000000000400000000000000"
      "18dc6a1c");
}

std::vector<ShardEntry> decode(const ShardCodec& codec, ByteView value) {
  const ShardIndexRange range = shard_index_range(codec, value.size());
  return decode_shard_index(codec, value.subspan(range.offset, range.length), value.size());
}

// Changes entry `number` and makes the checksum fit again.
std::function<void(Bytes&)> set_entry(std::size_t number, std::uint64_t offset,
                                      std::uint64_t nbytes) {
  return [=](Bytes& value) {
    std::memcpy(value.data() + 16 + 16 * number, &offset, 8);
    std::memcpy(value.data() + 24 + 16 * number, &nbytes, 8);
    const std::uint32_t crc = crc32c(ByteView(value).subspan(16, 64));
    std::memcpy(value.data() + 80, &crc, 4);
  };
}

TEST(ShardIndex, Example) {
  EXPECT_EQ(decode(two_by_two(), example()),
            (std::vector<ShardEntry>{{0, 4}, {4, 4}, {8, 4}, {12, 4}}));
  ShardCodec scalar;
  scalar.codecs.nbytes = 1;
  EXPECT_EQ(decode(scalar, testing::from_hex("0500000000000000000100000000000000cde74c0b")),
            (std::vector<ShardEntry>{{0, 1}}));
}

TEST(ShardIndex, AbsentEntriesGapsAndOverlapsAreFine) {
  Bytes value = example();
  set_entry(1, ShardEntry::kAbsent, ShardEntry::kAbsent)(value);
  set_entry(2, 3, 0)(value);
  set_entry(3, 80, 4)(value);
  const auto index = decode(two_by_two(), value);
  EXPECT_TRUE(index[1].absent());
  EXPECT_EQ(index[2], (ShardEntry{3, 0}));
}

TEST(ShardIndex, Damage) {
  const std::uint64_t all = ShardEntry::kAbsent;
  const Damage kDamages[] = {
      {"stale checksum", [](Bytes& b) { b[20] ^= std::byte{1}; }, Code::kDataLoss,
       "shard index: crc32c mismatch"},
      {"half absent", set_entry(1, all, 4), Code::kDataLoss, "shard index entry 1"},
      {"other half absent", set_entry(2, 4, all), Code::kDataLoss, "shard index entry 2"},
      {"past the end", set_entry(3, 81, 4), Code::kDataLoss,
       "entry 3 with offset 81 and length 4 is invalid for a shard of 84 bytes"},
      {"overflow", set_entry(0, all - 1, 4), Code::kDataLoss, "shard index entry 0"},
      {"no room for the index", [](Bytes& b) { b.resize(67); }, Code::kDataLoss,
       "67 bytes is too small for an index of 4 entries"},
      {"empty", [](Bytes& b) { b.clear(); }, Code::kDataLoss, "too small for an index"},
  };
  cairn::testing::check_damages(example(), kDamages,
                                [](ByteView value) { return decode(two_by_two(), value); });
}

TEST(ShardIndex, EveryTruncationAndFlippedBitIsSeen) {
  const Bytes good = example();
  cairn::testing::for_each_truncation(good, [](ByteView bad, const std::string& what) {
    EXPECT_THROW(decode(two_by_two(), bad), Error) << what;
  });
  for (std::size_t bit = 16 * 8; bit < good.size() * 8; ++bit)
    EXPECT_THROW(decode(two_by_two(), cairn::testing::with_bit_flipped(good, bit)), Error) << bit;
}

TEST(ShardIndex, ManyEntriesInASmallValueAllocateNothing) {
  ShardCodec codec = two_by_two();
  codec.grid = {std::int64_t{1} << 31U, std::int64_t{1} << 31U};
  EXPECT_THAT([&] { shard_index_range(codec, 1000); },
              FailsWith(Code::kDataLoss, "too small for an index"));
}

// The data of a shard, found by its index, may be damaged in one inner chunk without harm to the
// others; and what is not asked for is not looked at.
TEST(ShardRead, OnlyWhatIsAskedFor) {
  const BuiltArray array({.zarr_format = 3,
                          .shape = {512, 512},
                          .chunks = {512, 512},
                          .inner = {64, 64},
                          .packing = Packing::kZstdChecksum});
  Bytes value = read_file(array.path("c/0/0"));
  ASSERT_GT(value.size(), std::size_t{256} << 10U);
  const ArrayMetadata metadata = array.open().metadata();
  const auto index = decode(*metadata.codecs.shard, value);
  const Box wanted{.origin = {64, 128}, .shape = {64, 64}};  // inner chunk (1, 2)
  for (std::size_t i = 0; i < index.size(); ++i)
    if (i != 8 + 2)
      std::fill_n(value.begin() + static_cast<std::ptrdiff_t>(index[i].offset), index[i].nbytes,
                  std::byte{0});
  cairn::testing::put_file(array.path("c/0/0"), value);
  EXPECT_TRUE(array.read(wanted) == array.expected(wanted));
  EXPECT_THAT(
      [&] {
        array.read({.origin = {64, 127}, .shape = {64, 64}});
      },
      FailsWith(Code::kDataLoss, "a: chunk c/0/0"));
  EXPECT_THAT(
      [&] {
        array.read({.origin = {64, 127}, .shape = {64, 64}});
      },
      FailsWith(Code::kDataLoss, "shard entry 9"));
}

TEST(ShardRead, MissingInnerChunks) {
  for (const bool in_memory : {true, false}) {
    const auto& golden = testing::golden(testing::tensorstore_arrays(), "v3 fill int shard");
    cairn::testing::TempDir folder;
    for (const auto& [key, value] : golden.keys) cairn::testing::put_file(folder / key, value);
    const ZarrArray array =
        ZarrArray::open(in_memory ? golden.in_memory() : open_file_store(folder.path()), "a");
    Bytes out(golden.expected.size());
    const MutableArrayView view = make_view(MutableByteView(out), DType::kInt32, golden.shape);
    EXPECT_THAT([&] { array.read(Box::whole(golden.shape), view, MissingChunk::kError); },
                FailsWith(Code::kDataLoss, "missing"));
    array.read(Box::whole(golden.shape), view, MissingChunk::kFill);
    EXPECT_EQ(out, golden.expected);
  }
}

TEST(ShardRead, DamagedIndexIsNamedWithItsChunk) {
  // decoded from memory, and opened by its index
  for (const Shape& shape : {Shape{16, 16}, Shape{512, 512}}) {
    const BuiltArray array({.zarr_format = 3, .shape = shape, .chunks = shape, .inner = {8, 8}});
    Bytes value = read_file(array.path("c/0/0"));
    value.back() ^= std::byte{1};
    cairn::testing::put_file(array.path("c/0/0"), value);
    EXPECT_THAT([&] { array.read(Box::whole(shape)); },
                FailsWith(Code::kDataLoss, "a: chunk c/0/0"));
    EXPECT_THAT([&] { array.read(Box::whole(shape)); },
                FailsWith(Code::kDataLoss, "shard index: crc32c mismatch"));
  }
}

}  // namespace
}  // namespace cairn::zarr
