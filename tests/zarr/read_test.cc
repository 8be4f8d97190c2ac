// read_test.cc -- reading boxes of arrays large enough for every way of reading there is, and what
// is said when it fails.
#include <cairn/array/box.h>
#include <cairn/zarr/read/array.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>
#include <tests/support/same_bytes.h>
#include <tests/zarr/build_array.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <random>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::same_bytes;
using testing::ArrayRecipe;
using testing::BuiltArray;
using testing::Packing;

struct Layout {
  const char* name;
  ArrayRecipe recipe;
};

// Rows of 64 KiB are far enough apart to be read one by one; a shard of more than 256 KiB is opened
// by its index.
const Layout kLayouts[] = {
    {"one raw chunk", {.shape = {200, 16384}, .chunks = {200, 16384}}},
    {"raw chunks with edges", {.shape = {130, 7, 501}, .chunks = {50, 4, 200}}},
    {"one zstd chunk", {.shape = {1024, 1024}, .chunks = {1024, 1024}, .packing = Packing::kZstd}},
    {"zstd chunks with edges",
     {.shape = {130, 7, 501}, .chunks = {50, 4, 200}, .packing = Packing::kZstdChecksum}},
    {"raw shard of one",
     {.zarr_format = 3, .shape = {200, 16384}, .chunks = {200, 16384}, .inner = {200, 16384}}},
    {"raw shards",
     {.zarr_format = 3, .shape = {500, 700}, .chunks = {256, 512}, .inner = {64, 64}}},
    {"zstd shards",
     {.zarr_format = 3,
      .shape = {500, 700},
      .chunks = {256, 512},
      .inner = {64, 64},
      .packing = Packing::kZstd}},
    {"small shards",
     {.zarr_format = 3,
      .shape = {50, 70},
      .chunks = {16, 32},
      .inner = {4, 8},
      .packing = Packing::kZstd}},
    {"one chunk with a crc32c",
     {.zarr_format = 3,
      .shape = {1024, 1024},
      .chunks = {1024, 1024},
      .packing = Packing::kCrc32c}},
    {"shard of one with a crc32c",
     {.zarr_format = 3,
      .shape = {200, 16384},
      .chunks = {200, 16384},
      .inner = {200, 16384},
      .packing = Packing::kCrc32c}},
    {"shards with a crc32c",
     {.zarr_format = 3,
      .shape = {500, 700},
      .chunks = {256, 512},
      .inner = {64, 64},
      .packing = Packing::kCrc32c}},
    {"small shards with a crc32c",
     {.zarr_format = 3,
      .shape = {50, 70},
      .chunks = {16, 32},
      .inner = {4, 8},
      .packing = Packing::kCrc32c}},
    {"many small chunks", {.shape = {100, 100}, .chunks = {3, 7}}},
};

Box random_box(const Shape& shape, std::mt19937& random) {
  Box box;
  for (const std::int64_t extent : shape) {
    const auto from = std::uniform_int_distribution<std::int64_t>(0, extent - 1)(random);
    box.origin.push_back(from);
    box.shape.push_back(std::uniform_int_distribution<std::int64_t>(1, extent - from)(random));
  }
  return box;
}

class Read : public ::testing::TestWithParam<Layout> {};

// As TensorStore joins a path and a key.
TEST(ArrayKeys, ASlashAtTheEndIsNoComponent) {
  EXPECT_EQ(ZarrArray::metadata_key("a", 2), "a/.zarray");
  EXPECT_EQ(ZarrArray::metadata_key("a/", 2), "a/.zarray");
  EXPECT_EQ(ZarrArray::metadata_key("", 3), "zarr.json");
  EXPECT_EQ(ZarrArray::metadata_key("/", 3), "zarr.json");
  EXPECT_EQ(ZarrArray::metadata_key("//", 3), "//zarr.json");
}

TEST_P(Read, BoxesHoldWhatWasStored) {
  const BuiltArray array(GetParam().recipe);
  const Shape& shape = GetParam().recipe.shape;
  EXPECT_TRUE(same_bytes(array.read(Box::whole(shape)), array.elements()));
  std::mt19937 random(5);
  for (int i = 0; i < 20; ++i) {
    const Box box = random_box(shape, random);
    EXPECT_TRUE(same_bytes(array.read(box), array.expected(box))) << box_text(box);
  }
  Box column = Box::whole(shape);  // thin boxes across everything: the sparsest patterns
  column.origin.back() = shape.back() / 2;
  column.shape.back() = 1;
  EXPECT_TRUE(same_bytes(array.read(column), array.expected(column)));
  Box row = Box::whole(shape);
  row.origin.front() = shape.front() - 1;
  row.shape.front() = 1;
  EXPECT_TRUE(same_bytes(array.read(row), array.expected(row)));
}

TEST_P(Read, ScattersIntoStrides) {
  const BuiltArray array(GetParam().recipe);
  const Shape& shape = GetParam().recipe.shape;
  // A destination that is the middle of something larger, with another order of dimensions.
  Shape larger(shape.rbegin(), shape.rend());
  for (auto& extent : larger) extent += 2;
  Bytes memory(static_cast<std::size_t>(element_count(larger)) * 4, std::byte{0xaa});
  MutableArrayView view = make_view(MutableByteView(memory), DType::kUint32, larger);
  view = subview(view, {.origin = std::vector<std::int64_t>(shape.size(), 1),
                        .shape = Shape(shape.rbegin(), shape.rend())});
  std::reverse(view.shape.begin(), view.shape.end());
  std::reverse(view.strides.begin(), view.strides.end());
  array.open().read(Box::whole(shape), view, MissingChunk::kError);
  Bytes out(array.elements().size());
  copy_elements(cairn::as_const(view), make_view(MutableByteView(out), DType::kUint32, shape));
  EXPECT_TRUE(same_bytes(out, array.elements()));
  const auto untouched =
      static_cast<std::size_t>(std::count(memory.begin(), memory.end(), std::byte{0xaa}));
  EXPECT_GE(untouched, memory.size() - out.size());
}

TEST_P(Read, StaysWithinTheBudget) {
  const BuiltArray array(GetParam().recipe);
  ByteBudget budget(std::uint64_t{12} << 20U);
  Executor executor(4);
  Progress progress;
  std::mt19937 random(6);
  const Box box = random_box(GetParam().recipe.shape, random);
  EXPECT_TRUE(
      same_bytes(array.read(box, {.executor = &executor, .budget = &budget, .progress = &progress}),
                 array.expected(box)));
  EXPECT_LE(budget.peak(), budget.limit());
  EXPECT_EQ(progress.done, static_cast<std::uint64_t>(element_count(box.shape)) * 4);
}

TEST_P(Read, TinyBudgetStillReads) {
  const BuiltArray array(GetParam().recipe);
  ByteBudget budget(1);
  Executor executor(3);
  const Box all = Box::whole(GetParam().recipe.shape);
  EXPECT_TRUE(
      same_bytes(array.read(all, {.executor = &executor, .budget = &budget}), array.elements()));
}

std::string layout_name(const ::testing::TestParamInfo<Layout>& layout) {
  std::string name = layout.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Layouts, Read, ::testing::ValuesIn(kLayouts), layout_name);

// ---- many arrays as one plan ----

TEST(ReadBoxes, ManyArraysInAnyOrder) {
  std::vector<std::unique_ptr<BuiltArray>> arrays;
  for (const Layout& layout : kLayouts)
    arrays.push_back(std::make_unique<BuiltArray>(layout.recipe));
  std::vector<Bytes> outs;
  std::deque<ZarrArray> opened;
  std::deque<Box> boxes;
  std::deque<MutableArrayView> views;
  std::vector<BoxRead> reads;
  std::mt19937 random(7);
  outs.reserve(64);
  for (int i = 0; i < 64; ++i) {
    const std::size_t which = random() % arrays.size();
    const Box& box = boxes.emplace_back(random_box(kLayouts[which].recipe.shape, random));
    outs.emplace_back(static_cast<std::size_t>(element_count(box.shape)) * 4);
    reads.push_back({.array = &opened.emplace_back(arrays[which]->open()),
                     .box = &box,
                     .out = &views.emplace_back(
                         make_view(MutableByteView(outs.back()), DType::kUint32, box.shape)),
                     .label = kLayouts[which].name});
  }
  read_boxes(reads);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const auto which = static_cast<std::size_t>(
        std::find_if(std::begin(kLayouts), std::end(kLayouts),
                     [&](const Layout& layout) { return reads[i].label == layout.name; }) -
        std::begin(kLayouts));
    EXPECT_TRUE(same_bytes(outs[i], arrays[which]->expected(boxes[i]))) << i;
  }
}

TEST(ReadBoxes, NothingToReadIsNothing) {
  read_boxes({});
  const BuiltArray array({.shape = {4, 4}, .chunks = {2, 2}});
  EXPECT_TRUE(array.read({.origin = {4, 0}, .shape = {0, 4}}).empty());
}

TEST(ReadBoxes, RefusesWrongBoxesAndDestinations) {
  const BuiltArray array({.shape = {4, 4}, .chunks = {2, 2}});
  Bytes out(64);
  const auto read = [&](Box box, DType dtype, Shape shape) {
    return [&, box, dtype, shape] {
      const auto bytes = static_cast<std::size_t>(element_count(shape)) * 4;
      array.open().read(box, make_view(MutableByteView(out).first(bytes), dtype, shape),
                        MissingChunk::kError);
    };
  };
  EXPECT_THAT(read({{3, 0}, {2, 4}}, DType::kUint32, {2, 4}), FailsWith(Code::kOutOfRange));
  EXPECT_THAT(read({{0}, {2}}, DType::kUint32, {2}), FailsWith(Code::kInvalidArgument, "rank"));
  EXPECT_THAT(read({{0, 0}, {2, 4}}, DType::kInt32, {2, 4}),
              FailsWith(Code::kInvalidArgument, "element type"));
  EXPECT_THAT(read({{0, 0}, {2, 4}}, DType::kUint32, {4, 2}),
              FailsWith(Code::kInvalidArgument, "shape"));
}

// ---- damage ----

TEST(ReadDamage, MissingChunkIsAnErrorOrTheFillValue) {
  const BuiltArray array({.shape = {6, 4}, .chunks = {2, 4}, .missing = "1.0"});
  const auto all = Box::whole({6, 4});
  EXPECT_THAT([&] { array.read(all); }, FailsWith(Code::kDataLoss, "a: chunk 1.0"));
  EXPECT_THAT([&] { array.read(all); }, FailsWith(Code::kDataLoss, "missing"));
  Bytes expected = array.elements();
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint32_t fill = 7;
    std::memcpy(expected.data() + (8 + i) * 4, &fill, 4);
  }
  EXPECT_TRUE(same_bytes(array.read(all, {}, MissingChunk::kFill), expected));
}

TEST(ReadDamage, ValueOfTheWrongSizeIsDamage) {
  for (const auto packing : {Packing::kRaw, Packing::kZstd, Packing::kZstdChecksum}) {
    const BuiltArray array({.shape = {6, 4}, .chunks = {2, 4}, .packing = packing});
    const Bytes good = read_file(array.path("1.0"));
    for (std::size_t n = 0; n <= good.size() + 1; ++n) {
      if (n == good.size()) continue;
      Bytes bad = good;
      bad.resize(n);
      cairn::testing::put_file(array.path("1.0"), bad);
      EXPECT_THAT(
          [&] {
            array.read(Box::whole({6, 4}), {}, MissingChunk::kFill);
          },
          FailsWith(Code::kDataLoss, "chunk 1.0"))
          << n;
      const Box part{.origin = {2, 1}, .shape = {1, 2}};
      EXPECT_THAT([&] { array.read(part, {}, MissingChunk::kFill); },
                  FailsWith(Code::kDataLoss, "chunk 1.0"))
          << n;
    }
  }
}

TEST(ReadDamage, EveryFlippedBitBehindAChecksumIsSeen) {
  const BuiltArray array({.shape = {3, 40}, .chunks = {3, 40}, .packing = Packing::kZstdChecksum});
  const Bytes good = read_file(array.path("0.0"));
  const StorePtr store = make_memory_store();
  store->write("a/.zarray", read_file(array.path(".zarray")));
  const ZarrArray opened = ZarrArray::open(store, "a");
  int harmless = 0;
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    store->write("a/0.0", bad);
    Bytes out(array.elements().size());
    try {
      opened.read(Box::whole({3, 40}), make_view(MutableByteView(out), DType::kUint32, {3, 40}),
                  MissingChunk::kError);
      EXPECT_TRUE(same_bytes(out, array.elements())) << bit;
      ++harmless;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDataLoss) << error.what();
    }
  }
  EXPECT_LT(harmless, 40);  // bits of the header that change nothing, such as reserved ones
}

// A store whose values lie one behind the other in one file, as in an OCDBT data file.
class OneFileStore : public KvStore {
 public:
  explicit OneFileStore(const KvStore& from) {
    Bytes all;
    for (const ListEntry& entry : from.list("")) {
      const Bytes value = *from.read(entry.key, {});
      places_[entry.key] = {.file = folder_ / "data", .offset = all.size(), .length = value.size()};
      all.insert(all.end(), value.begin(), value.end());
      all.resize(all.size() + 5, std::byte{0xcc});
    }
    cairn::testing::put_file(folder_ / "data", all);
  }
  [[nodiscard]] std::string file() const { return folder_ / "data"; }

  std::optional<Bytes> read(std::string_view key, ByteRange) const override {
    const auto place = locate(key);
    if (!place) return std::nullopt;
    Bytes value(place->length);
    File::open(place->file).read_into(place->offset, value);
    return value;
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t) const override {
    return read(key, {});
  }
  bool read_into(std::string_view, std::uint64_t, MutableByteView) const override {
    throw Error(Code::kUnimplemented, "read_into");
  }
  std::optional<SharedBytes> map(std::string_view key) const override {
    auto value = read(key, {});
    if (!value) return std::nullopt;
    const auto owner = std::make_shared<const Bytes>(*std::move(value));
    return SharedBytes{.owner = owner, .bytes = *owner};
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    const auto place = locate(key);
    return place ? std::optional(place->length) : std::nullopt;
  }
  std::optional<Location> locate(std::string_view key) const override {
    const auto found = places_.find(std::string(key));
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<ListEntry> list(std::string_view) const override { return {}; }
  void write(std::string_view, ByteView) override { throw Error(Code::kUnimplemented, "write"); }
  void remove(std::string_view) override { throw Error(Code::kUnimplemented, "remove"); }
  std::string describe(std::string_view key) const override {
    return "one file: " + std::string(key);
  }

 private:
  cairn::testing::TempDir folder_;
  std::map<std::string, Location> places_;
};

TEST(OneFile, NeighboursAreReadTogether) {
  for (const Layout& layout : kLayouts) {
    const BuiltArray array(layout.recipe);
    const auto store = std::make_shared<OneFileStore>(*array.open().store());
    Bytes out(array.elements().size());
    ZarrArray::open(store, "a")
        .read(Box::whole(layout.recipe.shape),
              make_view(MutableByteView(out), DType::kUint32, layout.recipe.shape),
              MissingChunk::kError);
    EXPECT_TRUE(same_bytes(out, array.elements())) << layout.name;
  }
}

TEST(OneFile, ACutFileNamesTheFirstChunkThatIsGone) {
  const BuiltArray array({.shape = {10, 10}, .chunks = {1, 10}});
  const auto store = std::make_shared<OneFileStore>(*array.open().store());
  const ZarrArray opened = ZarrArray::open(store, "a");
  std::filesystem::resize_file(store->file(), store->locate("a/6.0")->offset + 3);
  Bytes out(400);
  const auto read = [&] {
    opened.read(Box::whole({10, 10}), make_view(MutableByteView(out), DType::kUint32, {10, 10}),
                MissingChunk::kError);
  };
  EXPECT_THAT(read, FailsWith(Code::kDataLoss, "a: chunk 6.0 (one file: a/6.0)"));
  std::filesystem::remove(store->file());
  EXPECT_THAT(read, FailsWith(Code::kDataLoss, "/data"));
}

TEST(ReadDamage, BoolsAreZeroOrOne) {
  const StorePtr store = make_memory_store();
  store->write(
      "a/.zarray",
      as_bytes(
          R"({"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|b1","fill_value":null,"compressor":null})"));
  store->write("a/0", Bytes{std::byte{1}, std::byte{0}});
  store->write("a/1", Bytes{std::byte{1}, std::byte{2}});
  Bytes out(4);
  const ZarrArray array = ZarrArray::open(store, "a");
  const auto read = [&](std::int64_t from, std::int64_t n) {
    array.read(
        {{from}, {n}},
        make_view(MutableByteView(out).first(static_cast<std::size_t>(n)), DType::kBool, {n}),
        MissingChunk::kError);
  };
  EXPECT_NO_THROW(read(0, 3));
  EXPECT_THAT([&] { read(0, 4); }, FailsWith(Code::kDataLoss, "invalid bool value 2"));
}

}  // namespace
}  // namespace cairn::zarr
