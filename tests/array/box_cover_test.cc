// box_cover_test.cc -- which boxes are together all of another, beside counting how often each
// element is in one.
#include "tests/support/matchers.h"

#include <cairn/array/box.h>
#include <cairn/array/box_cover.h>

#include <random>

namespace cairn {
namespace {

// Cuts a box in two, over and over.
std::vector<Box> cut_up(std::mt19937& random, const Box& whole, int cuts) {
  std::vector<Box> boxes = {whole};
  for (int i = 0; i < cuts; ++i) {
    const std::size_t which = random() % boxes.size(),
                      d = whole.rank() == 0 ? 0 : random() % whole.rank();
    if (whole.rank() == 0 || boxes[which].shape[d] == 1) continue;
    const auto at = static_cast<std::int64_t>(
        1 + random() % static_cast<std::uint64_t>(boxes[which].shape[d] - 1));
    Box second = boxes[which];
    second.origin[d] += at;
    second.shape[d] -= at;
    boxes[which].shape[d] = at;
    boxes.push_back(second);
  }
  return boxes;
}

int times_covered(std::span<const Box> boxes, const std::vector<std::int64_t>& point) {
  return static_cast<int>(std::count_if(boxes.begin(), boxes.end(), [&](const Box& box) {
    return contains(box, Box{point, Shape(point.size(), 1)});
  }));
}

void check(const Box& whole, std::span<const Box> boxes) {
  std::int64_t wrong = 0;
  const std::int64_t count = element_count(whole.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> point = whole.origin;
    for (std::int64_t d = static_cast<std::int64_t>(whole.rank()) - 1, rest = i; d >= 0; --d) {
      point[static_cast<std::size_t>(d)] += rest % whole.shape[static_cast<std::size_t>(d)];
      rest /= whole.shape[static_cast<std::size_t>(d)];
    }
    wrong += times_covered(boxes, point) != 1 ? 1 : 0;
  }
  const auto fault = cover_fault(whole, boxes);
  ASSERT_EQ(fault.has_value(), wrong != 0);
  if (!fault) return;
  const int times = times_covered(boxes, fault->point);
  EXPECT_NE(times, 1);
  EXPECT_EQ(fault->boxes.size(), times == 0 ? 0U : 2U);
  for (const std::size_t b : fault->boxes)
    EXPECT_EQ(times_covered({&boxes[b], 1}, fault->point), 1);
}

TEST(BoxCover, RandomBoxes) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    // Ranks above twelve are looked at pair by pair.
    const std::size_t rank = seed % 10 == 0 ? 13 + random() % 2 : random() % 5;
    Box whole;
    for (std::size_t d = 0; d < rank; ++d) {
      whole.origin.push_back(static_cast<std::int64_t>(random() % 4));
      whole.shape.push_back(static_cast<std::int64_t>(1 + random() % (rank > 12 ? 2 : 5)));
    }
    std::vector<Box> boxes = cut_up(random, whole, static_cast<int>(random() % 20));
    std::shuffle(boxes.begin(), boxes.end(), random);
    if (random() % 3 == 0) boxes.pop_back();
    if (random() % 3 == 0 && !boxes.empty()) boxes.push_back(boxes[random() % boxes.size()]);
    if (random() % 3 == 0 && !boxes.empty()) {  // one grows, or shrinks
      Box& box = boxes[random() % boxes.size()];
      for (std::size_t d = 0; d < rank; ++d)
        if (random() % 4 == 0)
          box.shape[d] = static_cast<std::int64_t>(
              1 + random() %
                      static_cast<std::uint64_t>(whole.origin[d] + whole.shape[d] - box.origin[d]));
    }
    check(whole, boxes);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(BoxCover, APinwheelCannotBeCutStraightThrough) {
  const Box whole = Box::whole({3, 3});
  std::vector<Box> boxes = {
      {{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}};
  EXPECT_FALSE(cover_fault(whole, boxes).has_value());
  boxes.pop_back();
  EXPECT_EQ(cover_fault(whole, boxes)->point, (std::vector<std::int64_t>{1, 1}));
}

// The same number of elements in all, but one twice and one not at all.
TEST(BoxCover, ASumIsNotEnough) {
  const std::vector<Box> boxes = {{{0}, {2}}, {{1}, {2}}};
  const auto fault = cover_fault(Box::whole({4}), boxes);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->boxes, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(fault->point, (std::vector<std::int64_t>{1}));
}

TEST(BoxCover, Extremes) {
  constexpr std::int64_t kMany = std::int64_t{1} << 61U;
  EXPECT_FALSE(cover_fault(Box::whole({kMany, 2}), std::vector<Box>{{{0, 0}, {1, 2}},
                                                                    {{1, 0}, {kMany - 1, 1}},
                                                                    {{1, 1}, {kMany - 1, 1}}})
                   .has_value());
  EXPECT_FALSE(cover_fault(Box::whole({}), std::vector<Box>{Box{}}).has_value());
  EXPECT_TRUE(cover_fault(Box::whole({}), std::vector<Box>{}).has_value());
  EXPECT_EQ(cover_fault(Box::whole({}), std::vector<Box>{Box{}, Box{}})->boxes.size(), 2U);
  std::vector<Box> columns;
  for (std::int64_t i = 0; i < 200'000; ++i) columns.push_back({{0, i}, {2, 1}});
  EXPECT_FALSE(cover_fault(Box::whole({2, 200'000}), columns).has_value());
}

}  // namespace
}  // namespace cairn
