// crc32c_chunks_test.cc -- raw chunks with a CRC-32C behind them: damage of every kind, in chunks
// of every size that is read in its own way, wherever the chunk lies.
#include <cairn/base/byte_io.h>
#include <cairn/io/file.h>
#include <cairn/zarr/codec/chain_stream.h>
#include <cairn/zarr/read/array.h>
#include <gtest/gtest.h>
#include <tests/support/damage.h>
#include <tests/support/matchers.h>
#include <tests/support/same_bytes.h>
#include <tests/zarr/build_array.h>

#include <cstring>
#include <string>
#include <vector>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::put_file;
using cairn::testing::same_bytes;
using cairn::testing::with_bit_flipped;
using testing::BuiltArray;
using testing::Packing;

// Read with its neighbours, alone at once, and piece by piece.
constexpr std::int64_t kChunkSizes[] = {1, 1000, 200'000, 700'000};

struct ChunkDamage {
  const char* what;
  Bytes (*make)(Bytes good);
  const char* message;
};

Bytes cut(Bytes good, std::size_t size) {
  good.resize(size);
  return good;
}

const ChunkDamage kChunkDamages[] = {
    {"first bit", [](Bytes good) { return with_bit_flipped(good, 0); }, "crc32c mismatch"},
    {"bit in the middle", [](Bytes good) { return with_bit_flipped(good, 4 * good.size()); },
     "crc32c mismatch"},
    {"last bit of the elements",
     [](Bytes good) { return with_bit_flipped(good, 8 * (good.size() - 4) - 1); },
     "crc32c mismatch"},
    {"first bit of the checksum",
     [](Bytes good) { return with_bit_flipped(good, 8 * (good.size() - 4)); }, "crc32c mismatch"},
    {"last bit", [](Bytes good) { return with_bit_flipped(good, 8 * good.size() - 1); },
     "crc32c mismatch"},
    {"a byte short", [](Bytes good) { return cut(good, good.size() - 1); }, "crc32c mismatch"},
    {"without the checksum", [](Bytes good) { return cut(good, good.size() - 4); }, "crc32c"},
    {"a byte more", [](Bytes good) { return cut(good, good.size() + 1); }, "crc32c mismatch"},
    {"half", [](Bytes good) { return cut(good, good.size() / 2); }, "crc32c"},
    {"three bytes", [](Bytes good) { return cut(good, 3); },
     "crc32c: 3 bytes are too few for the checksum"},
    {"empty", [](Bytes good) { return cut(good, 0); },
     "crc32c: 0 bytes are too few for the checksum"},
    {"an element less, with its checksum",
     [](Bytes good) {
       ByteWriter value;
       const ByteView elements = ByteView(good).first(good.size() - 8);
       value.bytes(elements).u32(crc32c(elements));
       return std::move(value).take();
     },
     "bytes, expected"},
    {"an element more, with its checksum",
     [](Bytes good) {
       good.resize(good.size());
       ByteWriter value;
       value.bytes(good).u32(crc32c(good));
       return std::move(value).take();
     },
     "expected"},
};

TEST(Crc32cChunks, DamageIsFoundByReadsOfAllAndOfAPartAndByVerify) {
  for (const std::int64_t size : kChunkSizes) {
    const BuiltArray array({.zarr_format = 3,
                            .shape = {3 * size},
                            .chunks = {size},
                            .inner = {},
                            .packing = Packing::kCrc32c,
                            .missing = {}});
    const Bytes good = read_file(array.path("c/1"));
    ASSERT_EQ(good.size(), 4 * static_cast<std::size_t>(size) + 4);
    for (const ChunkDamage& damage : kChunkDamages) {
      put_file(array.path("c/1"), damage.make(good));
      const std::string what = std::string(damage.what) + " of " + std::to_string(size);
      EXPECT_THAT([&] { array.read(Box::whole({3 * size})); },
                  FailsWith(Code::kDataLoss, "chunk c/1"))
          << what;
      EXPECT_THAT(
          [&] {
            array.read({{size + size / 3}, {1}});
          },
          FailsWith(Code::kDataLoss, damage.message))
          << what;
      ByteBudget budget(4096);
      EXPECT_THAT(
          [&] {
            array.read({{size + size / 3}, {1}}, {.budget = &budget});
          },
          FailsWith(Code::kDataLoss, "chunk c/1"))
          << what;
      const CheckedArray report = verify_array(array.open(), "a", MissingChunk::kError, {});
      ASSERT_EQ(report.findings.size(), 1U) << what;
      EXPECT_NE(report.findings[0].message.find(damage.message), std::string::npos)
          << what << ": " << report.findings[0].message;
    }
    put_file(array.path("c/1"), good);
    EXPECT_TRUE(same_bytes(array.read(Box::whole({3 * size})), array.elements()));
  }
}

TEST(Crc32cChunks, DamageInAShardIsFoundAndNamesTheChunk) {
  for (const std::int64_t size : {64, 300'000}) {
    const BuiltArray array({.zarr_format = 3,
                            .shape = {4 * size},
                            .chunks = {4 * size},
                            .inner = {size},
                            .packing = Packing::kCrc32c,
                            .missing = {}});
    const Bytes good = read_file(array.path("c/0"));
    const auto stored = 4 * static_cast<std::size_t>(size) + 4;
    for (const std::size_t byte : {2 * stored, 2 * stored + stored / 2, 3 * stored - 1}) {
      put_file(array.path("c/0"), with_bit_flipped(good, 8 * byte + 3));
      EXPECT_THAT([&] { array.read(Box::whole({4 * size})); },
                  FailsWith(Code::kDataLoss, "shard entry 2: crc32c mismatch"))
          << byte;
      EXPECT_TRUE(same_bytes(array.read({{0}, {2 * size}}), array.expected({{0}, {2 * size}})));
      EXPECT_FALSE(verify_array(array.open(), "a", MissingChunk::kError, {}).findings.empty());
    }
  }
}

TEST(Crc32cChunks, AViewOfUncheckedBytesIsNeverHandedOut) {
  const BuiltArray array({.zarr_format = 3,
                          .shape = {1000},
                          .chunks = {1000},
                          .inner = {},
                          .packing = Packing::kCrc32c,
                          .missing = {}});
  EXPECT_FALSE(array.open().try_view());
}

}  // namespace
}  // namespace cairn::zarr
