// Arrays that are read in another order than they are stored in: decoded once, the same values.
#include <cairn/tools/transform/scratch_arrays.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <random>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::make_array;
using testing::MemoryCheckpoint;
using testing::TempDir;

constexpr std::uint64_t kMemory = std::uint64_t{4} << 20U;

Array counted(const Shape& shape) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 7);
  return make_array(DType::kInt32, shape, values);
}

// Adds an array that looks compressed, in chunks of this shape.
void add_compressed(MemoryCheckpoint& source, const Array& array, Shape chunk) {
  TensorInfo& tensor = source.add("a", array);
  tensor.chunk_shape = std::move(chunk);
  tensor.stored_nbytes = tensor.nbytes / 2;
}

void expect_box(ScratchArrays& arrays, const Array& expected, const Box& box, Executor& executor) {
  Array found = Array::allocate(expected.dtype(), box.shape);
  const ReadRequest request{0, box, found.mutable_view()};
  arrays.read({&request, 1}, executor);
  Array same = Array::allocate(expected.dtype(), box.shape);
  copy_elements(subview(expected.view(), box), same.mutable_view());
  EXPECT_TRUE(std::ranges::equal(found.bytes(), same.bytes())) << box_text(box);
}

TEST(ScratchCopy, GivesEveryBoxBackWhateverTheCells) {
  const TempDir folder;
  Executor executor(2);
  std::mt19937 random(5);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 200; ++round) {
    Shape shape, cell;
    const std::size_t rank = round % 4;
    for (std::size_t d = 0; d < rank; ++d) {
      shape.push_back(1 + below(9));
      cell.push_back(1 + below(shape.back()));
    }
    const Array array = counted(shape);
    MemoryCheckpoint source;
    source.add("a", array);
    ScratchCopy copy(source.tensors()[0], cell, folder.path());
    copy.write(Box::whole(shape), array.view(), executor);
    for (int i = 0; i < 5; ++i) {
      Box box = Box::whole(shape);
      for (std::size_t d = 0; d < rank; ++d) {
        box.origin[d] = below(shape[d]);
        box.shape[d] = 1 + below(shape[d] - box.origin[d]);
      }
      Array found = Array::allocate(DType::kInt32, box.shape);
      copy.read(box, found.mutable_view(), executor);
      Array expected = Array::allocate(DType::kInt32, box.shape);
      copy_elements(subview(array.view(), box), expected.mutable_view());
      ASSERT_TRUE(std::ranges::equal(found.bytes(), expected.bytes())) << box_text(box);
    }
  }
}

TEST(ScratchArrays, DecodesAnArrayOnceForAllItsLayers) {
  // one chunk larger than the memory, many small chunks, and no chunks
  for (const Shape& chunk : {Shape{600, 8, 1024}, Shape{64, 3, 1024}, Shape{}}) {
    const TempDir folder;
    Executor executor(2);
    const Array array = counted({600, 8, 1024});
    MemoryCheckpoint source;
    add_compressed(source, array, chunk);
    ScratchArrays arrays(source, folder.path(), kMemory);
    for (std::int64_t layer = 0; layer < 8; ++layer) {
      expect_box(arrays, array, {{0, layer, 0}, {600, 1, 1024}}, executor);
      EXPECT_EQ(source.elements_read, 600 * 8 * 1024);  // by the first one
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    // All was read: the copy is gone, and the array itself is read.
    expect_box(arrays, array, {{0, 1, 0}, {2, 3, 4}}, executor);
    EXPECT_EQ(source.elements_read, 600 * 8 * 1024 + 24);
  }
}

TEST(ScratchArrays, ReadsColumnsOfAnUncompressedMatrixFromACopy) {
  const TempDir folder;
  Executor executor(2);
  const Array array = counted({4096, 2048});
  MemoryCheckpoint source;
  source.add("a", array);
  ScratchArrays arrays(source, folder.path(), kMemory);
  for (std::int64_t column = 0; column < 2048; column += 100) {
    expect_box(arrays, array, {{0, column}, {4096, std::min<std::int64_t>(100, 2048 - column)}},
               executor);
    EXPECT_EQ(source.elements_read, 4096 * 2048);
  }
}

TEST(ScratchArrays, ReadsTheArrayItselfWhereACopyDoesNotPay) {
  struct Case {
    const char* name;
    Shape shape, chunk;
    std::vector<Box> boxes;
  };
  const Case cases[] = {
      {"rows of chunks",
       {4096, 2048},
       {512, 2048},
       {{{0, 0}, {512, 2048}}, {{512, 0}, {512, 2048}}}},
      {"a small array", {64, 8, 1024}, {64, 8, 1024}, {{{0, 0, 0}, {64, 1, 1024}}}},
      {"all of it at once", {4096, 2048}, {4096, 2048}, {{{0, 0}, {4096, 2048}}}},
  };
  for (const Case& c : cases) {
    const TempDir folder;
    Executor executor(2);
    const Array array = counted(c.shape);
    MemoryCheckpoint source;
    add_compressed(source, array, c.chunk);
    ScratchArrays arrays(source, folder.path(), kMemory);
    std::uint64_t wanted = 0;
    for (const Box& box : c.boxes) {
      expect_box(arrays, array, box, executor);
      wanted += static_cast<std::uint64_t>(element_count(box.shape));
    }
    EXPECT_EQ(source.elements_read, wanted) << c.name;
  }
}

TEST(ScratchArrays, CopiesAnArrayIfWhatIsExpectedOfItTouchesChunksTwice) {
  const TempDir folder;
  Executor executor(2);
  const Array array = counted({600, 8, 1024});
  constexpr std::uint64_t kLayer = 600 * 1024 * sizeof(std::int32_t);
  const std::int64_t all = 600 * 8 * 1024;
  const auto read_layers = [&](const ExpectedBytes& expected, std::int64_t layers,
                               std::int64_t pieces) {
    MemoryCheckpoint source;
    add_compressed(source, array, {600, 8, 1024});
    ScratchArrays arrays(source, folder.path(), kMemory);
    arrays.expect(expected);
    for (std::int64_t layer = 0; layer < layers; ++layer)
      for (std::int64_t piece = 0; piece < pieces; ++piece)
        expect_box(arrays, array, {{600 / pieces * piece, layer, 0}, {600 / pieces, 1, 1024}},
                   executor);
    return static_cast<std::int64_t>(source.elements_read);
  };
  EXPECT_EQ(read_layers({{0, kLayer}}, 1, 1), 600 * 1024) << "one layer, read at once";
  EXPECT_EQ(read_layers({{0, kLayer}}, 1, 4), all) << "one layer, each chunk read four times";
  EXPECT_EQ(read_layers({{0, 2 * kLayer}}, 2, 1), all) << "two layers";
  EXPECT_EQ(read_layers({{0, 8 * kLayer}}, 8, 1), all) << "all layers";
}

TEST(ScratchArrays, ReadsTheArrayItselfWithoutAFolderOrASpaceForFiles) {
  Executor executor(2);
  const Array array = counted({600, 8, 1024});
  for (const std::string folder : {"", "/proc/self/fdinfo"}) {
    MemoryCheckpoint source;
    add_compressed(source, array, {600, 8, 1024});
    ScratchArrays arrays(source, folder, kMemory);
    expect_box(arrays, array, {{0, 1, 0}, {600, 1, 1024}}, executor);
    EXPECT_EQ(source.elements_read, 600 * 1024) << folder;
  }
}

TEST(ScratchArrays, PassesOnTheErrorsOfTheSource) {
  class Damaged : public MemoryCheckpoint {
   public:
    using MemoryCheckpoint::read;
    void read(std::span<const ReadRequest> /*requests*/, const ProgressFn&) const override {
      throw Error(Code::kDataLoss, "a: damaged");
    }
  };
  const TempDir folder;
  Executor executor(2);
  const Array array = counted({600, 8, 1024});
  Damaged source;
  add_compressed(source, array, {600, 8, 1024});
  ScratchArrays arrays(source, folder.path(), kMemory);
  EXPECT_THAT(
      [&] {
        expect_box(arrays, array, {{0, 1, 0}, {600, 1, 1024}}, executor);
      },
      FailsWith(Code::kDataLoss));
}

TEST(ScratchFile, HasNoNameAndReadsWhatWasWritten) {
  const TempDir folder;
  ScratchFile file(folder.path() + "/missing/folders");
  file.write_at(5, as_bytes("abc"));
  Bytes found(8);
  file.read_at(0, found);
  EXPECT_TRUE(std::ranges::equal(found, as_bytes(std::string_view("\0\0\0\0\0abc", 8))));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_GT(file.free_space(), 0U);
  EXPECT_THAT([&] { file.read_at(1, found); }, FailsWith(Code::kIo));
}

}  // namespace
}  // namespace cairn
