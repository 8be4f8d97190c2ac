// sort_runs_test.cc -- sorted runs of any number and length.
#include <cairn/base/sort_runs.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace cairn {
namespace {

TEST(SortRuns, SortsRunsOfAnyLength) {
  const unsigned seed = testing::seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const std::size_t run : {1U, 2U, 3U, 15U, 16U, 17U, 100U, 5000U})
    for (const std::size_t size : {0U, 1U, 2U, 17U, 999U, 5000U}) {
      std::vector<std::unique_ptr<unsigned>> items;  // cannot be copied
      std::vector<unsigned> expected;
      for (std::size_t i = 0; i < size; ++i)
        expected.push_back(static_cast<unsigned>(random() % 1000));
      for (std::size_t i = 0; i < size; i += run)
        std::sort(expected.begin() + static_cast<std::ptrdiff_t>(i),
                  expected.begin() + static_cast<std::ptrdiff_t>(std::min(size, i + run)));
      for (const unsigned value : expected) items.push_back(std::make_unique<unsigned>(value));
      std::sort(expected.begin(), expected.end());
      sort_runs(items, [](const auto& a, const auto& b) { return *a < *b; });
      std::vector<unsigned> sorted;
      for (const auto& item : items) sorted.push_back(*item);
      EXPECT_EQ(sorted, expected) << "runs of " << run << " of " << size;
    }
}

}  // namespace
}  // namespace cairn
