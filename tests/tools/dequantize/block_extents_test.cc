// block_extents_test.cc -- blocks as they follow from shapes and from the configuration.
#include <cairn/tools/dequantize/block_extents.h>
#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

TEST(BlockExtents, FollowFromTheShapes) {
  const struct {
    Shape weight, scale, blocks;
  } cases[] = {
      {{200, 300}, {}, {}},
      {{200, 300}, {1}, {}},
      {{200, 300}, {1, 1}, {}},
      {{200, 300}, {200, 1}, {1, 300}},
      {{200, 300}, {1, 300}, {200, 1}},
      {{256, 384}, {2, 3}, {128, 128}},
      {{200, 384}, {200, 3}, {1, 128}},
      {{250, 133}, {8, 5}, {32, 32}},  // no extent divides
      {{4, 256, 96}, {4, 2, 3}, {1, 128, 32}},
      {{90, 2880}, {90, 90}, {1, 32}},
      {{0, 5}, {0, 5}, {1, 1}},
  };
  for (const auto& c : cases)
    EXPECT_EQ(block_extents(c.weight, c.scale, {}), c.blocks)
        << shape_text(c.weight) << shape_text(c.scale);
}

TEST(BlockExtents, OfAnAmbiguousSize) {
  EXPECT_THAT(
      [] {
        block_extents({5, 200}, {5, 2}, {});
      },
      FailsWith(Code::kInvalidArgument,
                "along axis 1 is ambiguous: 2 scales for 200 "
                "elements may be for blocks of 100 or of 128"));
}

TEST(BlockExtents, AreThoseOfTheConfiguration) {
  EXPECT_EQ(block_extents({200, 300}, {2, 3}, {128, 128}), (Shape{128, 128}));
  EXPECT_EQ(block_extents({200, 300}, {2, 3}, {100, 100}), (Shape{100, 100}));
  EXPECT_EQ(block_extents({6, 200, 300}, {6, 2, 3}, {128, 128}), (Shape{1, 128, 128}));
  EXPECT_EQ(block_extents({6, 50}, {6, 3}, {1, 20}), (Shape{1, 20}));
  EXPECT_THAT(
      [] {
        block_extents({200, 300}, {2, 2}, {128, 128});
      },
      FailsWith(Code::kDataLoss, "(2, 2), which does not fit a weight of shape (200, 300)"));
}

TEST(BlockExtents, OfShapesThatNoBlocksHave) {
  for (const Shape& scale : {Shape{201, 3}, Shape{0, 3}, Shape{3}, Shape{2, 3, 1}, Shape{150, 1}})
    EXPECT_THAT(
        [&] {
          block_extents({200, 300}, scale, {});
        },
        FailsWith(Code::kDataLoss, "does not fit a weight of shape (200, 300)"))
        << shape_text(scale);
}

TEST(BlockExtents, InWords) {
  EXPECT_EQ(blocks_text({}, {4, 6}), "per tensor");
  EXPECT_EQ(blocks_text({1, 6}, {4, 6}), "per channel");
  EXPECT_EQ(blocks_text({1, 32}, {4, 64}), "groups of 32");
  EXPECT_EQ(blocks_text({128, 128}, {400, 600}), "blocks of 128 x 128");
}

}  // namespace
}  // namespace cairn
