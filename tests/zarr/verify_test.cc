// verify_test.cc -- what verify_array finds, what it says about checksums, and views.
#include <cairn/array/box.h>
#include <cairn/zarr/read/array.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>
#include <tests/zarr/build_array.h>
#include <tests/zarr/golden.h>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;
using testing::BuiltArray;
using testing::Packing;

VerifyReport verify(const ZarrArray& array, MissingChunk missing = MissingChunk::kError,
                    const ReadContext& context = {}) {
  CheckedArray checked = verify_array(array, "label", missing, context);
  VerifyReport report{
      .findings = std::move(checked.findings), .chunks = checked.chunks, .bytes = checked.bytes};
  if (checked.unprotected) report.unprotected.emplace_back("label");
  return report;
}

TEST(Verify, CountsAndProgress) {
  const BuiltArray array({.shape = {5, 7}, .chunks = {2, 4}, .packing = Packing::kZstdChecksum});
  Progress progress;
  ByteBudget budget(1000);
  const VerifyReport report =
      verify(array.open(), MissingChunk::kError, {.budget = &budget, .progress = &progress});
  EXPECT_FALSE(report.damaged());
  EXPECT_EQ(report.chunks, 6U);
  EXPECT_EQ(report.tensors, 0U);
  EXPECT_GT(report.bytes, 6U * 20);
  EXPECT_EQ(progress.done, 5U * 7 * 4);
  EXPECT_TRUE(report.unprotected.empty());
  EXPECT_LE(budget.peak(), budget.limit());
}

TEST(Verify, GoesOnAfterDamageAndNamesThePlace) {
  const BuiltArray array(
      {.shape = {6, 4}, .chunks = {2, 4}, .packing = Packing::kZstdChecksum, .missing = "2.0"});
  Bytes value = read_file(array.path("0.0"));
  value.back() ^= std::byte{1};
  cairn::testing::put_file(array.path("0.0"), value);
  const VerifyReport report = verify(array.open());
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].tensor, "label");
  EXPECT_EQ(report.findings[0].file, array.path("0.0"));
  EXPECT_THAT(report.findings[0].message, ::testing::HasSubstr("chunk 0.0: zstd"));
  EXPECT_THAT(report.findings[1].message, ::testing::HasSubstr("chunk 2.0: the chunk is missing"));
  EXPECT_EQ(report.chunks, 1U);
  EXPECT_EQ(verify(array.open(), MissingChunk::kFill).findings.size(), 1U);
}

TEST(Verify, ChecksOnlyStoredChunksOfVeryMany) {
  const cairn::testing::TempDir dir;
  cairn::testing::put_file(
      dir / "w/.zarray",
      R"({"zarr_format":2,"shape":[1152921504606846976],"chunks":[16],"dtype":"<u4","fill_value":7,"order":"C","filters":null,"compressor":null})");
  for (const auto& [name, size] : {std::pair{"0", 64},
                                   {"72057594037927935", 64},
                                   {"3", 63},
                                   {"72057594037927936", 1},
                                   {"00", 1},
                                   {"x", 1}})
    cairn::testing::put_file(dir / ("w/" + std::string(name)),
                             Bytes(static_cast<std::size_t>(size)));
  const ZarrArray array = ZarrArray::open(open_file_store(dir.path()), "w");
  const VerifyReport filled = verify(array, MissingChunk::kFill);
  ASSERT_EQ(filled.findings.size(), 1U);
  EXPECT_EQ(filled.findings[0].file, dir / "w/3");
  EXPECT_EQ(filled.chunks, 2U);
  const VerifyReport strict = verify(array);
  ASSERT_EQ(strict.findings.size(), 2U);
  EXPECT_THAT(
      strict.findings[0].message,
      ::testing::HasSubstr("chunk 1: the chunk is missing, as are 72057594037927932 others"));
  // Only those of its share.
  EXPECT_EQ(verify_array(array, "label", MissingChunk::kFill, {}, {.begin = 1, .end = 4}).chunks,
            0U);
  EXPECT_EQ(verify_array(array, "label", MissingChunk::kFill, {}, {.begin = 4}).chunks, 1U);
}

TEST(Verify, NoChunkIsReadThatIsLargerThanAnyEncoderMakesIt) {
  const BuiltArray array({.shape = {4, 4}, .chunks = {4, 4}, .packing = Packing::kZstd});
  std::filesystem::resize_file(array.path("0.0"), std::uint64_t{8} << 30U);
  const auto refused = "chunk has 8589934592 bytes, expected at most ";
  const VerifyReport report = verify(array.open());
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_THAT(report.findings[0].message, ::testing::HasSubstr(refused));
  Bytes out(64);
  const MutableArrayView view = make_view(MutableByteView(out), DType::kUint32, {4, 4});
  EXPECT_THAT(
      [&] {
        array.open().read(Box::whole({4, 4}), view, MissingChunk::kError);
      },
      FailsWith(Code::kDataLoss, refused));
  Bytes corner(16);
  const MutableArrayView part = make_view(MutableByteView(corner), DType::kUint32, {2, 2});
  EXPECT_THAT(
      [&] {
        array.open().read(Box::whole({2, 2}), part, MissingChunk::kError);
      },
      FailsWith(Code::kDataLoss, refused));
}

TEST(Verify, ShardsPieceByPiece) {
  for (const Shape& shape : {Shape{16, 16}, Shape{512, 512}}) {
    const BuiltArray array({.zarr_format = 3,
                            .shape = shape,
                            .chunks = shape,
                            .inner = {8, 8},
                            .packing = Packing::kZstdChecksum});
    Bytes value = read_file(array.path("c/0/0"));
    value[5] ^= std::byte{0xff};
    cairn::testing::put_file(array.path("c/0/0"), value);
    const VerifyReport report = verify(array.open());
    ASSERT_EQ(report.findings.size(), 1U);
    EXPECT_THAT(report.findings[0].message, ::testing::HasSubstr("chunk c/0/0, shard entry 0: "));
    EXPECT_EQ(report.chunks, static_cast<std::uint64_t>(element_count(shape) / 64 - 1));
    value.resize(20);
    cairn::testing::put_file(array.path("c/0/0"), value);
    EXPECT_TRUE(verify(array.open()).damaged());
  }
}

TEST(Verify, KnowsWhatNoChecksumCovers) {
  const std::pair<const char*, bool> kCovered[] = {
      {"v2 int32 raw", false},        {"v2 codec zstd", false},
      {"v2 codec gzip", true},        {"v2 codec zlib", true},
      {"v2 codec bz2", true},         {"v2 codec blosc lz4 1", false},
      {"v3 codec crc32c", true},      {"v3 codec zstd crc32c", true},
      {"v3 codec crc32c zstd", true}, {"v3 codec zstd checksum", true},
      {"v3 codec gzip", true},        {"v3 int32 orbax", false},
      {"v3 shard edge", true},
  };
  for (const auto& [name, covered] : kCovered) {
    const ZarrArray array =
        ZarrArray::open(testing::golden(testing::tensorstore_arrays(), name).in_memory(), "a");
    EXPECT_EQ(verify(array).unprotected.empty(), covered) << name;
    EXPECT_TRUE(
        verify(array, MissingChunk::kError, {.inline_values_protected = true}).unprotected.empty())
        << name;
  }
  const BuiltArray in_file({.shape = {4}, .chunks = {4}});
  EXPECT_FALSE(verify(in_file.open(), MissingChunk::kError, {.inline_values_protected = true})
                   .unprotected.empty());
}

TEST(Verify, FindsBoolsThatAreNone) {
  const StorePtr store = make_memory_store();
  store->write(
      "a/.zarray",
      as_bytes(R"({"zarr_format":2,"shape":[2],"chunks":[2],"dtype":"|b1","compressor":null})"));
  store->write("a/0", Bytes{std::byte{1}, std::byte{7}});
  EXPECT_THAT(verify(ZarrArray::open(store, "a")).findings.at(0).message,
              ::testing::HasSubstr("invalid bool value 7 at element 1"));
}

// Puts `front` in front of the stored chunk and `behind` behind it, and verifies as for Orbax. Returns
// the message; "" if the array is good.
std::string message_with(const BuiltArray& array, const std::string& key, const Bytes& front,
                         const Bytes& behind) {
  const Bytes chunk = read_file(array.path(key));
  Bytes changed = front;
  changed.insert(changed.end(), chunk.begin(), chunk.end());
  changed.insert(changed.end(), behind.begin(), behind.end());
  cairn::testing::put_file(array.path(key), changed);
  EXPECT_FALSE(verify(array.open()).damaged());
  const VerifyReport report =
      verify(array.open(), MissingChunk::kError, {.must_suit_tensorstore = true});
  cairn::testing::put_file(array.path(key), chunk);
  return report.findings.empty() ? "" : report.findings[0].message;
}

TEST(Verify, FramesThatTensorStoreRefuses) {
  Bytes skippable;
  for (const int byte : {0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9})
    skippable.push_back(static_cast<std::byte>(byte));
  const Bytes empty = compress_zstd({}, 1, false);
  // The second array is decoded in parts.
  for (const std::int64_t n : {std::int64_t{100}, std::int64_t{3} << 20U}) {
    const BuiltArray v2({.shape = {n}, .chunks = {n}, .packing = Packing::kZstd});
    EXPECT_EQ(message_with(v2, "0", {}, {}), "");
    EXPECT_THAT(message_with(v2, "0", skippable, {}),
                ::testing::HasSubstr("zstd data: starts with a skippable frame"));
    EXPECT_THAT(message_with(v2, "0", {}, skippable),
                ::testing::HasSubstr("chunk 0: TensorStore, and so Orbax, refuses the chunk: zstd "
                                     "data: more data follows its first frame"));
    const BuiltArray v3({.zarr_format = 3, .shape = {n}, .chunks = {n}, .packing = Packing::kZstd});
    EXPECT_EQ(message_with(v3, "c/0", {}, skippable), "");
    EXPECT_THAT(message_with(v3, "c/0", skippable, {}),
                ::testing::HasSubstr("zstd data: starts with a skippable frame"));
    EXPECT_THAT(message_with(v3, "c/0", {}, empty),
                ::testing::HasSubstr("more data follows its first frame"));
  }
}

TEST(Verify, HostileNumberOfChunksEnds) {
  const StorePtr store = make_memory_store();
  store->write(
      "a/.zarray",
      as_bytes(
          R"({"zarr_format":2,"shape":[1152921504606846976],"chunks":[1],"dtype":"|i1","compressor":null})"));
  store->write(
      "b/.zarray",
      as_bytes(
          R"({"zarr_format":2,"shape":[100000000],"chunks":[1],"dtype":"|i1","compressor":null})"));
  const VerifyReport filled = verify(ZarrArray::open(store, "a"), MissingChunk::kFill);
  EXPECT_TRUE(filled.findings.empty());
  EXPECT_EQ(filled.chunks, 0U);
  const VerifyReport missing = verify(ZarrArray::open(store, "b"));
  ASSERT_EQ(missing.findings.size(), 1U);
  EXPECT_THAT(missing.findings[0].message,
              ::testing::HasSubstr("chunk 0: the chunk is missing, as are 99999999 others"));
}

// ---- views ----

TEST(View, IsTheStoredChunk) {
  for (const char* name : {"v2 float32 raw", "v3 float32 raw", "v3 float32 orbax raw", "v2 rank 0",
                           "v3 rank 0", "v3 rank 0 shard"}) {
    const auto& golden = testing::golden(testing::tensorstore_arrays(), name);
    cairn::testing::TempDir folder;
    for (const auto& [key, value] : golden.keys) cairn::testing::put_file(folder / key, value);
    for (const StorePtr& store : {golden.in_memory(), open_file_store(folder.path())}) {
      const auto view = ZarrArray::open(store, "a").try_view();
      ASSERT_TRUE(view) << name;
      EXPECT_EQ(view->dtype(), *dtype_from_name(golden.dtype));
      EXPECT_EQ(Bytes(view->bytes().begin(), view->bytes().end()), golden.expected) << name;
    }
  }
}

TEST(View, OnlyOfWhatIsStoredAsItIs) {
  for (const char* name :
       {"v2 float32 zstd chunks", "v2 float32 big-endian", "v3 float32 orbax", "v2 layout F .",
        "v3 codec transpose", "v3 codec crc32c", "v3 shard end", "v2 chunk beyond"})
    EXPECT_FALSE(
        ZarrArray::open(testing::golden(testing::tensorstore_arrays(), name).in_memory(), "a")
            .try_view())
        << name;
  EXPECT_TRUE(
      ZarrArray::open(testing::golden(testing::tensorstore_arrays(), "v2 empty").in_memory(), "a")
          .try_view()
          ->bytes()
          .empty());
}

TEST(View, ChecksWhatCanBeChecked) {
  const auto& golden = testing::golden(testing::tensorstore_arrays(), "v2 float32 raw");
  const StorePtr store = golden.in_memory();
  store->write("a/0.0", Bytes(59));
  EXPECT_THAT([&] { (void)ZarrArray::open(store, "a").try_view(); },
              FailsWith(Code::kDataLoss, "59 bytes, expected 60"));
  store->remove("a/0.0");
  EXPECT_FALSE(ZarrArray::open(store, "a").try_view());
  const auto& shard = testing::golden(testing::tensorstore_arrays(), "v3 float32 orbax raw");
  const StorePtr sharded = shard.in_memory();
  Bytes value = *sharded->read("a/c/0/0", {});
  value.back() ^= std::byte{1};
  sharded->write("a/c/0/0", value);
  EXPECT_THAT([&] { (void)ZarrArray::open(sharded, "a").try_view(); },
              FailsWith(Code::kDataLoss, "crc32c mismatch"));
}

}  // namespace
}  // namespace cairn::zarr
