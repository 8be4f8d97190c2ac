// Cutting arrays into runs, and getting the bytes of one leaf out.
#include <cairn/inspect.h>
#include <cairn/tools/source/stream.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/matchers.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::make_array;
using testing::MemoryCheckpoint;

TEST(CutElements, KeepsChunksWholeWhereTheyFit) {
  TensorInfo t;
  t.shape = {1, 100, 8};
  t.chunk_shape = {1, 16, 4};
  const Box whole = Box::whole(t.shape);
  EXPECT_EQ(cut_elements(t, whole, 1000), 16 * 8);
  EXPECT_EQ(cut_elements(t, whole, 16 * 8), 16 * 8);
  EXPECT_EQ(cut_elements(t, whole, 16 * 8 - 1), 8);
  EXPECT_EQ(cut_elements(t, whole, 7), 1);
  EXPECT_EQ(cut_elements(t, whole, 0), 1);
  t.chunk_shape = {};
  EXPECT_EQ(cut_elements(t, whole, 1000), 8);
  t.shape = {};
  EXPECT_EQ(cut_elements(t, Box::whole(t.shape), 1000), 1);
}

// An extent of zero makes any other extents possible: their product is more than an integer holds.
TEST(CutElements, TakesExtentsWhoseProductOverflows) {
  TensorInfo t;
  t.shape = {std::int64_t{1} << 40U, 3, std::int64_t{1} << 40U, 0};
  EXPECT_EQ(cut_elements(t, Box::whole(t.shape), 1000), 1);
  t.chunk_shape = {std::int64_t{1} << 20U, 1, std::int64_t{1} << 20U, 1};
  EXPECT_GE(cut_elements(t, Box::whole(t.shape), std::int64_t{1} << 40U), 1);
}

Bytes collect(const Checkpoint& checkpoint, const ExportOptions& options, std::size_t index = 0) {
  Bytes bytes;
  export_leaf(checkpoint, index, options,
              [&](ByteView piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  return bytes;
}

TEST(Export, GivesTheSameBytesInPiecesOfAnySize) {
  MemoryCheckpoint checkpoint;
  std::vector<std::int16_t> values(5 * 7 * 3);
  std::iota(values.begin(), values.end(), std::int16_t{0});
  const Array array = make_array(DType::kInt16, {5, 7, 3}, values);
  checkpoint.add("a", array).chunk_shape = {2, 7, 3};
  const Bytes whole(array.bytes().begin(), array.bytes().end());
  for (std::uint64_t memory = 1; memory < 300; ++memory)
    EXPECT_EQ(collect(checkpoint, {.slice = {}, .memory = memory}), whole) << memory;
  Bytes part;
  const Array slice = Array::allocate(DType::kInt16, {2, 3, 1});
  for (std::size_t i : {1U, 2U})
    for (std::size_t j : {3U, 4U, 5U}) {
      const ByteView element = array.bytes().subspan(2 * (i * 21 + j * 3 + 2), 2);
      part.insert(part.end(), element.begin(), element.end());
    }
  for (std::uint64_t memory = 1; memory < 20; ++memory)
    EXPECT_EQ(collect(checkpoint, {.slice = "1:3, 3:6, 2", .memory = memory}), part);
}

TEST(Export, StringsAreTheirBytesAndNodesAreRefused) {
  MemoryCheckpoint checkpoint;
  checkpoint.add_string("s", "grüße");
  checkpoint.add_node("n", "Dict");
  EXPECT_EQ(as_text(collect(checkpoint, {.slice = {}})), "grüße");
  EXPECT_THAT([&] { collect(checkpoint, {.encoding = LeafEncoding::kNpy, .slice = {}}); },
              FailsWith(Code::kInvalidArgument, "string"));
  EXPECT_THAT([&] { collect(checkpoint, {.slice = "0"}); },
              FailsWith(Code::kInvalidArgument, "no slices"));
  EXPECT_THAT([&] { collect(checkpoint, {.slice = {}}, 1); },
              FailsWith(Code::kInvalidArgument, "Dict"));
}

}  // namespace
}  // namespace cairn
