// Numbering boxes, and what it costs.
#include <cairn/handlers/box_table.h>
#include <gtest/gtest.h>

#include <bit>

namespace cairn::handlers {
namespace {

struct CountingLess {
  std::size_t* calls;
  bool operator()(const Box& a, const Box& b) const {
    ++*calls;
    return BoxLess()(a, b);
  }
};

TEST(BoxTable, NumbersBoxesInTheOrderInWhichTheyCome) {
  BoxTable<> table;
  const Box first{{0, 8}, {4, 4}};
  const Box same_place{{0, 8}, {4, 5}};
  EXPECT_EQ(table.add(first), std::pair(std::size_t{0}, true));
  EXPECT_EQ(table.add(same_place), std::pair(std::size_t{1}, true));
  EXPECT_EQ(table.add(first), std::pair(std::size_t{0}, false));
  EXPECT_EQ(table.add(Box{{8, 0}, {4, 4}}), std::pair(std::size_t{2}, true));
  EXPECT_EQ(table.add(Box{}), std::pair(std::size_t{3}, true));
  EXPECT_EQ(table.add(same_place), std::pair(std::size_t{1}, false));
}

// A mesh of 2 x n devices whose first axis holds replicas: no more than n log n comparisons, up to
// a factor.
TEST(BoxTable, CostsNoMoreThanNLogN) {
  for (const std::size_t n : {64U, 1024U, 16384U}) {
    std::size_t calls = 0;
    BoxTable<CountingLess> table(CountingLess{&calls});
    for (std::size_t device = 0; device < 2 * n; ++device) {
      const auto at = static_cast<std::int64_t>(device % n);
      EXPECT_EQ(table.add(Box{{at * 3}, {3}}), std::pair(device % n, device < n));
    }
    EXPECT_LE(calls, 2 * n * 2 * static_cast<std::size_t>(std::bit_width(n))) << n << " boxes";
  }
}

}  // namespace
}  // namespace cairn::handlers
