// shared_test.cc -- several boxes of one read that want the same chunk: it is fetched and decoded
// once, and each gets its part.
#include <gtest/gtest.h>
#include <tests/zarr/build_array.h>

#include <atomic>
#include <ctime>
#include <functional>
#include <random>

#include "tests/support/faulty_store.h"

namespace cairn::zarr {
namespace {

using testing::ArrayRecipe;
using testing::BuiltArray;
using testing::Packing;

// Counts how often values are asked for, and may keep their places to itself.
class CountingStore : public cairn::testing::ForwardingStore {
 public:
  CountingStore(StorePtr inner, bool locates)
      : ForwardingStore(std::move(inner)), locates_(locates) {}

  std::optional<SharedBytes> map(std::string_view key) const override {
    ++maps;
    return ForwardingStore::map(key);
  }
  std::optional<Location> locate(std::string_view key) const override {
    ++locations;
    return locates_ ? ForwardingStore::locate(key) : std::nullopt;
  }

  mutable std::atomic<int> maps = 0;
  mutable std::atomic<int> locations = 0;

 private:
  bool locates_;
};

// Boxes, their memory, and one plan that reads them all.
class Batch {
 public:
  explicit Batch(std::vector<Box> boxes) : boxes_(std::move(boxes)) {
    for (const Box& box : boxes_) {
      memory_.emplace_back(static_cast<std::size_t>(element_count(box.shape)) * 4, std::byte{0xa5});
      views_.push_back(make_view(MutableByteView(memory_.back()), DType::kUint32, box.shape));
    }
  }
  void read(const ZarrArray& array, const ReadContext& context = {},
            MissingChunk missing = MissingChunk::kError) {
    std::vector<BoxRead> reads;
    for (std::size_t i = 0; i < boxes_.size(); ++i)
      reads.push_back({.array = &array,
                       .box = &boxes_[i],
                       .out = &views_[i],
                       .label = "a",
                       .missing = missing});
    read_boxes(reads, context);
  }
  void expect_of(const BuiltArray& built) const {
    for (std::size_t i = 0; i < boxes_.size(); ++i)
      ASSERT_EQ(memory_[i], built.expected(boxes_[i])) << box_text(boxes_[i]);
  }
  [[nodiscard]] const std::vector<Bytes>& memory() const { return memory_; }

 private:
  std::vector<Box> boxes_;
  std::vector<Bytes> memory_;
  std::vector<MutableArrayView> views_;
};

std::vector<Box> random_boxes(const Shape& shape, int count) {
  std::mt19937 random(3);
  std::vector<Box> boxes = {Box::whole(shape), Box::whole(shape)};
  for (int i = 0; i < count; ++i) {
    Box box;
    for (const std::int64_t extent : shape) {
      const auto from = std::uniform_int_distribution<std::int64_t>(0, extent - 1)(random);
      box.origin.push_back(from);
      box.shape.push_back(std::uniform_int_distribution<std::int64_t>(1, extent - from)(random));
    }
    boxes.push_back(box);
  }
  return boxes;
}

// Each row of the first dimension, as a box.
std::vector<Box> rows(const Shape& shape, std::int64_t height) {
  std::vector<Box> boxes;
  for (std::int64_t at = 0; at < shape[0]; at += height) {
    Box box = Box::whole(shape);
    box.origin[0] = at;
    box.shape[0] = std::min(height, shape[0] - at);
    boxes.push_back(box);
  }
  return boxes;
}

TEST(SharedChunks, EveryBoxGetsItsPart) {
  const ArrayRecipe kRecipes[] = {
      {.shape = {20, 30}, .chunks = {7, 11}, .inner = {}, .packing = Packing::kZstd, .missing = {}},
      {.shape = {20, 30},
       .chunks = {20, 30},
       .inner = {},
       .packing = Packing::kZstdChecksum,
       .missing = {}},
      {.shape = {20, 30}, .chunks = {7, 11}, .inner = {}, .packing = Packing::kRaw, .missing = {}},
      {.zarr_format = 3,
       .shape = {20, 30},
       .chunks = {20, 16},
       .inner = {5, 8},
       .packing = Packing::kZstd,
       .missing = {}},
      {.zarr_format = 3,
       .shape = {400, 300},
       .chunks = {400, 300},
       .inner = {100, 300},
       .packing = Packing::kZstd,
       .missing = {}},
  };
  for (const ArrayRecipe& recipe : kRecipes) {
    SCOPED_TRACE(shape_text(recipe.chunks));
    const BuiltArray built(recipe);
    for (const bool locates : {true, false}) {
      const ZarrArray array =
          ZarrArray::open(std::make_shared<CountingStore>(built.open().store(), locates), "a");
      Batch batch(random_boxes(recipe.shape, 60));
      ByteBudget budget(1U << 20U);
      Progress progress;
      ReadContext context;
      context.budget = &budget;
      context.progress = &progress;
      batch.read(array, context);
      batch.expect_of(built);
      std::uint64_t bytes = 0;
      for (const Bytes& memory : batch.memory()) bytes += memory.size();
      EXPECT_EQ(progress.done, bytes);
    }
  }
}

TEST(SharedChunks, AreAskedForOnce) {
  const ArrayRecipe recipe{
      .shape = {40, 30}, .chunks = {10, 15}, .inner = {}, .packing = Packing::kZstd, .missing = {}};
  const BuiltArray built(recipe);
  const auto store = std::make_shared<CountingStore>(built.open().store(), false);
  const ZarrArray array = ZarrArray::open(store, "a");
  store->maps = 0;
  Batch batch(rows(recipe.shape, 1));
  batch.read(array);
  batch.expect_of(built);
  EXPECT_EQ(store->maps, 8);  // chunks, which 80 parts are wanted of
}

// 1,024 boxes of an array of 1,024 chunks, none of which lies as the chunks do: what is asked of
// the store are the 2,047 pairs that touch, not all million.
TEST(ManyBoxesOfManyChunks, CostWhatTouches) {
  const ArrayRecipe recipe{
      .shape = {4096}, .chunks = {4}, .inner = {}, .packing = Packing::kRaw, .missing = {}};
  const BuiltArray built(recipe);
  const auto store = std::make_shared<CountingStore>(built.open().store(), true);
  const ZarrArray array = ZarrArray::open(store, "a");
  store->locations = 0;
  std::vector<Box> boxes;
  for (std::int64_t at = 0; at < 4096; at += 4)
    boxes.push_back({.origin = {std::max<std::int64_t>(0, at - 2)}, .shape = {at == 0 ? 2 : 4}});
  Batch batch(std::move(boxes));
  batch.read(array);
  batch.expect_of(built);
  EXPECT_EQ(store->locations, 2 * 1024 - 1);
}

TEST(SharedChunks, MissingOnesFillEveryPart) {
  const ArrayRecipe recipe{.shape = {40, 30},
                           .chunks = {10, 15},
                           .inner = {},
                           .packing = Packing::kZstd,
                           .missing = "1.0"};
  const BuiltArray built(recipe);
  const auto store = std::make_shared<CountingStore>(built.open().store(), false);
  const ZarrArray array = ZarrArray::open(store, "a");
  store->maps = 0;
  Batch batch(rows(recipe.shape, 1));
  batch.read(array, {}, MissingChunk::kFill);
  EXPECT_EQ(store->maps, 8);
  for (std::size_t row = 10; row < 20; ++row)
    for (std::size_t i = 0; i < 60; ++i)
      ASSERT_EQ(batch.memory()[row][i], std::byte{i % 4 == 0 ? std::uint8_t{7} : std::uint8_t{0}});
  EXPECT_THROW(Batch(rows(recipe.shape, 1)).read(array), Error);
}

// The time of the processor is what tells how often something was decoded.
double seconds_of(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST(SharedChunks, AreDecodedOnce) {
  const ArrayRecipe recipe{.shape = {512, 1024},
                           .chunks = {512, 1024},
                           .inner = {},
                           .packing = Packing::kZstdChecksum,
                           .missing = {}};
  const BuiltArray built(recipe);
  const ZarrArray array = built.open();
  Batch whole({Box::whole(recipe.shape)});
  const double once = seconds_of([&] { whole.read(array); });
  std::vector<Box> columns;
  for (std::int64_t at = 0; at < 1024; at += 4)
    columns.push_back({.origin = {0, at}, .shape = {512, 4}});
  for (auto boxes : {rows(recipe.shape, 2), columns}) {
    Batch batch(std::move(boxes));  // 256 of them
    const double all = seconds_of([&] { batch.read(array); });
    batch.expect_of(built);
    EXPECT_LT(all, 32 * once + 0.1);
  }
}

TEST(SharedChunks, LargerThanTheBudgetAreDecodedAPartAtATime) {
  const ArrayRecipe recipe{.shape = {1024, 1024},
                           .chunks = {1024, 1024},
                           .inner = {},
                           .packing = Packing::kZstd,
                           .missing = {}};
  const BuiltArray built(recipe);
  for (const auto& boxes : {rows(recipe.shape, 64), random_boxes({512, 512}, 3)}) {
    Batch batch(std::vector<Box>(boxes.rbegin(), boxes.rend()));
    ByteBudget budget(2U << 20U);  // of a chunk of 4 MiB
    ReadContext context;
    context.budget = &budget;
    batch.read(built.open(), context);
    batch.expect_of(built);
    EXPECT_LE(budget.peak(), budget.limit());
  }
}

}  // namespace
}  // namespace cairn::zarr
