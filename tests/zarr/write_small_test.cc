// write_small_test.cc -- small arrays are stored as write_boxes() stores them.
#include <cairn/array/box.h>
#include <cairn/base/executor.h>
#include <cairn/zarr/write/write_small.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;

struct Stored {
  std::vector<ZarrArray> arrays;
  std::vector<Bytes> elements;
};

// Arrays of noise, of zeros, and of few different bytes.
Stored some_arrays(const NewArray& like, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  const auto metadata = std::make_shared<const ArrayMetadata>(make_metadata(like));
  Stored out;
  for (std::size_t i = 0; i < count; ++i) {
    out.arrays.emplace_back(nullptr, "layer/" + std::to_string(i), metadata);
    Bytes& bytes = out.elements.emplace_back(metadata->codecs.nbytes);
    for (std::byte& byte : bytes)
      byte = std::byte(i % 3 == 0 ? random() : i % 3 == 1 ? 0 : random() % 2);
  }
  return out;
}

std::vector<std::pair<std::string, Bytes>> content(const KvStore& store) {
  std::vector<std::pair<std::string, Bytes>> out;
  for (const ListEntry& entry : store.list(""))
    out.emplace_back(entry.key, *store.read(entry.key, {}));
  return out;
}

TEST(WriteSmall, StoresWhatWriteBoxesStores) {
  for (const Compression compression :
       {Compression(), Compression(Compression::kNone), Compression::zstd(3)})
    for (const Shape& shape : {Shape{}, Shape{300}, Shape{7, 11}}) {
      const Stored given =
          some_arrays({.shape = shape, .chunk_shape = shape, .compression = compression}, 200);
      ASSERT_TRUE(is_small_whole(given.arrays[0].metadata()));
      std::vector<SmallWrite> small;
      std::vector<ArrayWrite> boxes;
      for (std::size_t i = 0; i < given.arrays.size(); ++i) {
        small.push_back({&given.arrays[i], given.elements[i].data()});
        boxes.push_back({.array = given.arrays[i],
                         .parts = {{Box::whole(shape), make_view(ByteView(given.elements[i]),
                                                                 DType::kFloat32, shape)}},
                         .label = "w",
                         .encode = encode_options(compression)});
      }
      const StorePtr expected = make_memory_store(), actual = make_memory_store();
      StoreSink expected_sink(expected), actual_sink(actual);
      write_boxes(boxes, expected_sink);
      Executor executor(3);
      Progress progress;
      write_small(small, actual_sink, encode_options(compression),
                  {.executor = &executor, .progress = &progress});
      EXPECT_EQ(content(*actual), content(*expected));
      EXPECT_EQ(progress.done.load(), 200 * given.elements[0].size());
    }
}

TEST(WriteSmall, NamesTheArrayThatCannotBeStored) {
  Stored given = some_arrays(
      {.shape = {5}, .chunk_shape = {5}, .dtype = DType::kBool, .compression = Compression()}, 3);
  std::vector<SmallWrite> writes;
  for (std::size_t i = 0; i < 3; ++i) {
    given.elements[i].assign(5, std::byte{1});
    writes.push_back({&given.arrays[i], given.elements[i].data()});
  }
  given.elements[2][4] = std::byte{2};
  StoreSink sink(make_memory_store());
  EXPECT_THAT([&] { write_small(writes, sink, {}, {}); },
              FailsWith(Code::kInvalidArgument, "layer/2: chunk 0: a bool element has value 2"));
}

TEST(WriteSmall, IsForOneSmallPlainChunk) {
  const auto is_small = [](const NewArray& array) { return is_small_whole(make_metadata(array)); };
  EXPECT_TRUE(is_small({.shape = {16384}, .chunk_shape = {16384}}));
  EXPECT_FALSE(is_small({.shape = {16385}, .chunk_shape = {16385}}));
  EXPECT_FALSE(is_small({.shape = {64}, .chunk_shape = {32}}));
  EXPECT_FALSE(is_small({.shape = {30}, .chunk_shape = {32}}));
  EXPECT_FALSE(
      is_small({.zarr_format = 3, .shape = {64}, .chunk_shape = {64}, .inner_chunk_shape = {64}}));
}

}  // namespace
}  // namespace cairn::zarr
