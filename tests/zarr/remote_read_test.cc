// remote_read_test.cc -- arrays in a store: how many requests a read sends, how large they are, how
// many are on their way at once, and that the elements are right.
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/zarr/read/array.h>
#include <gmock/gmock.h>
#include <tests/support/matchers.h>
#include <tests/support/slow_store.h>
#include <tests/support/upload.h>
#include <tests/zarr/build_array.h>

#include <chrono>
#include <memory>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::RequestLog;
using cairn::testing::SlowStore;
using testing::ArrayRecipe;
using testing::BuiltArray;
using testing::Packing;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

// An array in a store whose requests take 50 ms, read by two workers.
class RemoteArray {
 public:
  explicit RemoteArray(const ArrayRecipe& recipe, std::uint64_t memory = 1024 * kMiB)
      : built_(recipe), budget_(memory) {
    const StorePtr values = make_memory_store();
    const std::filesystem::path folder = std::filesystem::path(built_.path("0")).parent_path();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file())
        values->write("a/" + entry.path().lexically_relative(folder).string(),
                      read_file(entry.path().string()));
    const auto slow = std::make_shared<SlowStore>(values, log_);
    folder_ = StoreFolder::open(slow, "s3://b/run");
    array_ = ZarrArray::open(files_of(folder_), "a");
    log_->clear();
  }

  // Reads a box and checks its elements.
  void read(const Box& box) {
    Bytes out(static_cast<std::size_t>(element_count(box.shape)) * 4);
    array_->read(box, make_view(MutableByteView(out), DType::kUint32, box.shape),
                 MissingChunk::kError, context_);
    EXPECT_TRUE(out == built_.expected(box)) << box_text(box);
  }
  void verify() {
    const CheckedArray checked = verify_array(*array_, "a", MissingChunk::kError, context_);
    EXPECT_TRUE(checked.findings.empty());
  }
  [[nodiscard]] RequestLog& log() { return *log_; }

 private:
  BuiltArray built_;
  std::shared_ptr<RequestLog> log_ = std::make_shared<RequestLog>(std::chrono::milliseconds(50));
  FolderPtr folder_;
  std::optional<ZarrArray> array_;
  Executor executor_{2};
  ByteBudget budget_;
  ReadContext context_{.executor = &executor_, .budget = &budget_};
};

TEST(RemoteRead, ManyChunksAreReadAtOnceByFewWorkers) {
  for (const Packing packing : {Packing::kRaw, Packing::kZstd}) {
    RemoteArray array({.shape = {64, 65536}, .chunks = {1, 65536}, .packing = packing});
    array.read(Box::whole({64, 65536}));
    EXPECT_EQ(array.log().requests(), 64U);
    EXPECT_GE(array.log().most_at_once(), 8U);
    EXPECT_LE(array.log().most_at_once(), RequestLog::kConnections);
  }
}

TEST(RemoteRead, SlicesReadTheirChunksAlone) {
  RemoteArray array({.shape = {64, 65536}, .chunks = {1, 65536}});
  array.read({{8, 0}, {8, 65536}});
  EXPECT_EQ(array.log().requests(), 8U);
  EXPECT_EQ(array.log().bytes(), 2 * kMiB);
}

TEST(RemoteRead, NeighboursInOneObjectAreOneRequest) {
  // A shard of 256 chunks of 16 KiB.
  RemoteArray array({.zarr_format = 3,
                     .shape = {256, 4096},
                     .chunks = {256, 4096},
                     .inner = {1, 4096},
                     .packing = Packing::kCrc32c});
  array.read(Box::whole({256, 4096}));
  EXPECT_EQ(array.log().requests(), 1 + 5U) << "the index, and requests of up to 1 MiB";
  array.log().clear();
  array.read({{0, 0}, {8, 4096}});
  EXPECT_EQ(array.log().requests(), 1 + 1U);
  EXPECT_LE(array.log().bytes(), 8 * 16400 + 256 * 16 + 4U);
}

TEST(RemoteRead, RowsWithGapsAreJoinedOrReadAtOnce) {
  // Rows of 256 KiB: a gap costs less than a request.
  RemoteArray close({.shape = {64, 65536}, .chunks = {64, 65536}});
  close.read({{0, 0}, {64, 1024}});
  EXPECT_LE(close.log().requests(), 16U);
  // Rows of 4 MiB.
  RemoteArray distant({.shape = {16, 1048576}, .chunks = {16, 1048576}});
  distant.read({{0, 0}, {16, 1024}});
  EXPECT_EQ(distant.log().requests(), 16U);
  EXPECT_EQ(distant.log().bytes(), 16 * 4096U);
  EXPECT_GE(distant.log().most_at_once(), 4U);
}

TEST(RemoteRead, LargeValuesAreCutIntoRequests) {
  const ArrayRecipe recipes[] = {
      {.shape = {24, 262144}, .chunks = {24, 262144}},
      {.shape = {24, 262144}, .chunks = {24, 262144}, .packing = Packing::kZstd},
      {.shape = {24, 262144}, .chunks = {24, 262144}, .packing = Packing::kZstdChecksum},
      {.zarr_format = 3,
       .shape = {24, 262144},
       .chunks = {24, 262144},
       .packing = Packing::kCrc32c}};
  for (const ArrayRecipe& recipe : recipes) {
    RemoteArray array(recipe);
    array.read(Box::whole({24, 262144}));
    EXPECT_LE(array.log().largest(), 8 * kMiB);
    EXPECT_LE(array.log().requests(), 50U);
    EXPECT_GE(array.log().most_at_once(), 3U) << static_cast<int>(recipe.packing);
    array.log().clear();
    array.read({{1, 100}, {22, 2000}});  // a part that cannot be decoded alone
    EXPECT_LE(array.log().requests(), 50U);
  }
}

TEST(RemoteRead, VerifyingReadsLargeValuesAheadToo) {
  for (const Packing packing : {Packing::kRaw, Packing::kZstdChecksum}) {
    RemoteArray array({.shape = {24, 262144}, .chunks = {24, 262144}, .packing = packing});
    array.verify();
    EXPECT_LE(array.log().requests(), 8U);
    EXPECT_GE(array.log().most_at_once(), 3U);
    EXPECT_LE(array.log().most_bytes_at_once(), 16 * kMiB);
  }
  RemoteArray many({.shape = {64, 65536}, .chunks = {1, 65536}, .packing = Packing::kZstd});
  many.verify();
  EXPECT_EQ(many.log().requests(), 64U);
  EXPECT_GE(many.log().most_at_once(), 8U);
}

TEST(RemoteRead, ThePrefixOfACompressedValueIsFetchedAlone) {
  RemoteArray array({.shape = {32, 262144}, .chunks = {32, 262144}, .packing = Packing::kZstd});
  array.read({{0, 0}, {4, 262144}});
  EXPECT_LE(array.log().bytes(), 12 * kMiB);
}

TEST(RemoteRead, BytesInFlightStayWithinTheMemory) {
  for (const Packing packing : {Packing::kZstd, Packing::kZstdChecksum}) {
    RemoteArray large({.shape = {24, 262144}, .chunks = {24, 262144}, .packing = packing},
                      16 * kMiB);
    large.read(Box::whole({24, 262144}));
    EXPECT_LE(large.log().most_bytes_at_once(), 16 * kMiB);
    RemoteArray many({.shape = {24, 262144}, .chunks = {1, 262144}, .packing = packing}, 8 * kMiB);
    many.read(Box::whole({24, 262144}));
    EXPECT_LE(many.log().most_bytes_at_once(), 8 * kMiB);
    EXPECT_GE(many.log().most_at_once(), 4U);
  }
}

TEST(RemoteRead, AStoreThatDoesNotAnswerIsNotAskedAgain) {
  for (const Packing packing : {Packing::kRaw, Packing::kZstd}) {
    RemoteArray array({.zarr_format = 3,
                       .shape = {256, 4096},
                       .chunks = {256, 4096},
                       .inner = {1, 4096},
                       .packing = packing});
    array.log().fail_after(1);  // the index
    EXPECT_THAT(
        [&] {
          array.read(Box::whole({256, 4096}));
        },
        FailsWith(Code::kIo, "the store does not answer"));
    EXPECT_LE(array.log().requests(), 1 + 5U);
  }
  RemoteArray large({.shape = {24, 262144}, .chunks = {24, 262144}, .packing = Packing::kZstd});
  large.log().fail_after(3);
  EXPECT_THAT(
      [&] {
        large.read(Box::whole({24, 262144}));
      },
      FailsWith(Code::kIo, "the store does not answer"));
}

}  // namespace
}  // namespace cairn::zarr
