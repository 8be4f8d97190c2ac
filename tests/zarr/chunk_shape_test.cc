// chunk_shape_test.cc -- the chunk shapes that Orbax chooses, case by case; and the byte target
// that applies to a database.
#include <cairn/zarr/metadata/chunk_grid.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;

TEST(ChunkShape, AsOrbaxChooses) {
  struct Case {
    Shape shape, write_shape;
    std::size_t element_size;
    std::optional<std::int64_t> bytes;
    std::vector<std::int64_t> axes;
    Shape expect;
  };
  const std::vector<Case> cases = {
      {{1024, 1024}, {1024, 1024}, 4, 1048576, {}, {512, 512}},
      {{1024, 1024}, {256, 1024}, 4, 262144, {}, {64, 1024}},
      {{100, 30}, {100, 30}, 4, 1000, {}, {10, 15}},
      {{100, 30}, {50, 30}, 4, 1000, {}, {5, 30}},
      {{8, 6, 10}, {8, 3, 10}, 4, 80, {}, {4, 1, 5}},
      {{7, 11}, {7, 11}, 4, 100, {}, {7, 1}},
      {{12, 12}, {12, 12}, 4, 200, {}, {6, 6}},
      {{12, 12}, {12, 6}, 4, 200, {}, {12, 3}},
      {{16}, {16}, 2, 10, {}, {4}},
      {{6, 6}, {3, 6}, 4, 16, {}, {1, 3}},
      {{32000, 4096}, {4000, 4096}, 2, 16 << 20, {}, {2000, 4096}},
      {{32000, 4096}, {32000, 4096}, 2, 16 << 20, {}, {4000, 2048}},
      {{64, 64}, {64, 64}, 4, {}, {1}, {64, 1}},
      {{64, 64}, {64, 64}, 4, 512, {0, 1}, {1, 1}},
      {{64, 64}, {64, 64}, 4, 64, {1}, {16, 1}},
      {{}, {}, 4, 4, {}, {}},
      {{0, 3}, {0, 3}, 4, {}, {}, {1, 3}},
      {{4, 3}, {2, 3}, 4, {}, {}, {2, 3}},
  };
  for (const Case& c : cases)
    EXPECT_EQ(choose_chunk_shape(c.shape, c.write_shape, c.element_size,
                                 {.bytes = c.bytes, .shard_axes = c.axes}),
              c.expect)
        << shape_text(c.shape) << " " << shape_text(c.write_shape);
}

TEST(ChunkShape, LargePrimesTakeNoTime) {
  EXPECT_EQ(choose_chunk_shape({1000000007}, {1000000007}, 4, {.bytes = 100}), (Shape{1}));
  EXPECT_EQ(
      choose_chunk_shape({std::int64_t{1} << 40U}, {std::int64_t{1} << 40U}, 1, {.bytes = 1 << 20}),
      (Shape{1 << 20}));
}

TEST(ChunkShape, RefusesWhatCannotBe) {
  const auto choose = [](Shape shape, Shape write_shape, ChunkTarget target) {
    return [=] { choose_chunk_shape(shape, write_shape, 4, target); };
  };
  EXPECT_THAT(choose({1, 2}, {2}, {}), FailsWith(Code::kInvalidArgument, "rank"));
  EXPECT_THAT(choose({4}, {4}, {.bytes = 3}), FailsWith(Code::kInvalidArgument, "elements of 4"));
  EXPECT_THAT(choose({4}, {4}, {.bytes = {}, .shard_axes = {1}}),
              FailsWith(Code::kInvalidArgument, "axis 1"));
  EXPECT_THAT(choose({4}, {4}, {.bytes = {}, .shard_axes = {-1}}),
              FailsWith(Code::kInvalidArgument, "axis -1"));
  EXPECT_THAT(choose({4, 1}, {4}, {.bytes = {}, .shard_axes = {-1}}),
              FailsWith(Code::kInvalidArgument, "rank"));
}

TEST(LeadingChunks, AreRunsOfElements) {
  struct Case {
    Shape piece;
    std::int64_t bytes;
    std::optional<Shape> expect;
  };
  constexpr std::int64_t kMiB = 1 << 20;
  const std::vector<Case> cases = {
      {{16384, 16384}, 64 * kMiB, Shape{1024, 16384}},
      {{50257, 768}, 64 * kMiB, Shape{1733, 768}},
      {{30, 7}, 840, Shape{30, 7}},
      {{30, 7}, 839, Shape{15, 7}},
      {{30, 7}, 300, Shape{10, 7}},
      {{30, 7}, 28, Shape{1, 7}},
      {{30, 7, 8}, 150, Shape{1, 1, 8}},  // a row of 7 x 8 elements is too large
      {{30, 8, 7}, 150, Shape{1, 4, 7}},
      {{1, 1, 40}, 80, Shape{1, 1, 20}},
      {{0, 40}, 80, Shape{1, 20}},
      {{}, 4, Shape{}},
      {{101}, 400, std::nullopt},          // a prime
      {{101, 16}, 64 * 16, Shape{1, 16}},  // a sixteenth is enough
      {{101, 15}, 64 * 16, std::nullopt},
      {{4}, 3, std::nullopt},  // no element fits
  };
  for (const Case& c : cases)
    EXPECT_EQ(leading_chunk_shape(c.piece, 4, c.bytes), c.expect)
        << shape_text(c.piece) << " " << c.bytes;
}

// The caller refuses it when it makes the metadata.
TEST(LeadingChunks, DoNotExistForElementsWithoutASize) {
  EXPECT_EQ(leading_chunk_shape({4}, 0, 64), std::nullopt);
}

TEST(LeadingChunks, HugePrimesTakeNoTime) {
  EXPECT_EQ(leading_chunk_shape({1'000'000'007}, 4, 64 << 20), std::nullopt);
  EXPECT_EQ(leading_chunk_shape({(std::int64_t{1} << 61U) - 1}, 4, 64 << 20), std::nullopt);
  EXPECT_EQ(leading_chunk_shape({std::int64_t{1} << 60U}, 4, 64 << 20), (Shape{1 << 24}));
}

TEST(ChunkBytes, NoChunkIsLargerThanADataFile) {
  EXPECT_EQ(effective_chunk_bytes({}, 0, 1 << 20), std::nullopt);
  EXPECT_EQ(effective_chunk_bytes(100, 0, 1 << 20), 100);
  EXPECT_EQ(effective_chunk_bytes({}, 1000, 4000), 1000);
  EXPECT_EQ(effective_chunk_bytes({}, 1000, 1000), std::nullopt);
  EXPECT_EQ(effective_chunk_bytes(100, 1000, 4000), 100);
  EXPECT_EQ(effective_chunk_bytes(5000, 1000, 10), 1000);
  EXPECT_THAT([] { (void)effective_chunk_bytes({}, -1, 1); },
              FailsWith(Code::kInvalidArgument, "-1"));
}

}  // namespace
}  // namespace cairn::zarr
