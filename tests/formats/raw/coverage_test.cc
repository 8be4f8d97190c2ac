// coverage_test.cc -- which chunk an element is read from, against a map of all elements.
#include <cairn/array/box.h>
#include <cairn/formats/raw/coverage.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/random_box.h"

namespace cairn {
namespace {

using testing::FailsWith;

// The number of each element of a box in C order.
std::vector<std::size_t> elements_of(const Box& box, const Shape& shape) {
  std::vector<std::size_t> found;
  const std::int64_t count = element_count(box.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, number = 0, stride = 1;
    for (std::size_t d = box.rank(); d-- > 0;) {
      number += (box.origin[d] + rest % box.shape[d]) * stride;
      rest /= box.shape[d];
      stride *= shape[d];
    }
    found.push_back(static_cast<std::size_t>(number));
  }
  return found;
}

TEST(Coverage, TheLastChunkOfAnElementCounts) {
  std::mt19937 random(4);
  for (int round = 0; round < 3000; ++round) {
    Shape shape(random() % 4);
    for (auto& extent : shape) extent = 1 + static_cast<std::int64_t>(random() % 6);
    std::vector<Box> chunks(random() % 6);
    for (Box& box : chunks) box = testing::random_box(random, shape);
    if (chunks.size() > 2 && random() % 3 == 0) chunks[2] = chunks[0];

    std::vector<int> owner(static_cast<std::size_t>(element_count(shape)), -1);
    for (std::size_t c = 0; c < chunks.size(); ++c)
      for (const std::size_t element : elements_of(chunks[c], shape))
        owner[element] = static_cast<int>(c);

    std::uint64_t steps = kCoverSteps;
    const Coverage coverage = cover(chunks, steps);
    std::vector<int> found(owner.size(), -1);
    std::int64_t elements = 0;
    for (const ChunkPart& part : coverage.parts) {
      for (const std::size_t element : elements_of(part.box, shape)) {
        EXPECT_EQ(found[element], -1) << "in two parts";
        found[element] = static_cast<int>(part.chunk);
        ++elements;
      }
      EXPECT_TRUE(part.box.empty() || contains(chunks[part.chunk], part.box));
    }
    EXPECT_EQ(found, owner);
    EXPECT_EQ(elements, coverage.elements);

    // What a chunk does not give is among its doubles.
    std::vector<std::vector<int>> doubled(chunks.size(), std::vector<int>(owner.size()));
    for (const ChunkPart& part : coverage.doubles)
      for (const std::size_t element : elements_of(part.box, shape)) ++doubled[part.chunk][element];
    for (std::size_t c = 0; c < chunks.size(); ++c)
      for (const std::size_t element : elements_of(chunks[c], shape))
        EXPECT_EQ(doubled[c][element] > 0, owner[element] != static_cast<int>(c));
  }
}

TEST(Coverage, ManyRowsTakeFewSteps) {
  std::vector<Box> rows;
  for (std::int64_t row = 0; row < 100'000; ++row)
    rows.push_back({.origin = {row, 0}, .shape = {1, 8}});
  std::uint64_t steps = 1;
  EXPECT_EQ(cover(rows, steps).elements, 800'000);
}

TEST(Coverage, EndlessOverlapsAreRefused) {
  std::vector<Box> nested;
  for (std::int64_t i = 0; i < 10'000; ++i)
    nested.push_back({.origin = {i}, .shape = {20'000 - i}});
  std::uint64_t steps = 1'000'000;
  EXPECT_THAT([&] { (void)cover(nested, steps); },
              FailsWith(Code::kDataLoss, "overlap each other too often"));
}

}  // namespace
}  // namespace cairn
