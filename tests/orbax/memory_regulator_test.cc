// memory_regulator_test.cc -- the limit that follows the use of memory.
#include <cairn/error.h>
#include <cairn/orbax/save/memory_regulator.h>
#include <gtest/gtest.h>

#include <limits>

namespace cairn {
namespace {

TEST(MemoryRegulator, FollowsTheReadings) {
  MemoryRegulator regulator(100);
  EXPECT_DOUBLE_EQ(regulator.next_limit(10, {128, 40}), 41.2);  // as the real one does
}

TEST(MemoryRegulator, StaysBetweenItsBounds) {
  MemoryRegulator regulator(20);
  double limit = 10;
  for (int i = 0; i < 10; ++i) limit = regulator.next_limit(limit, {1000, 0});
  EXPECT_EQ(limit, 20);
  for (int i = 0; i < 10; ++i) limit = regulator.next_limit(limit, {10, 100});
  EXPECT_EQ(limit, 10);
}

TEST(MemoryRegulator, ASurgeNeverRaisesTheLimit) {
  MemoryRegulator regulator(100);
  EXPECT_EQ(regulator.next_limit(50, {128, 40}, 20), 30);
  // What it took away for the surge comes back after it.
  EXPECT_GT(regulator.next_limit(30, {128, 40}), 50);
}

TEST(MemoryRegulator, UselessReadingsKeepTheLimit) {
  MemoryRegulator regulator(100);
  for (const double bad :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(regulator.next_limit(33, {bad, 40}), 33);
    EXPECT_EQ(regulator.next_limit(33, {128, bad}), 33);
  }
}

TEST(MemoryRegulator, AnInfiniteSurgeLowersTheLimitToTheMinimum) {
  MemoryRegulator regulator(100);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(regulator.next_limit(50, {128, 40}, infinity), 10);
  EXPECT_GT(regulator.next_limit(10, {128, 40}), 50);  // it comes back after the surge
  EXPECT_EQ(regulator.next_limit(50, {128, 40}, -infinity), 50);
}

TEST(MemoryRegulator, TheMostMustLeaveRoom) {
  EXPECT_THROW(MemoryRegulator(12.5), Error);
  MemoryRegulator(12.6);
}

}  // namespace
}  // namespace cairn
