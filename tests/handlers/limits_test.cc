// limits_test.cc -- bytes in flight, and the limit that regulates itself.
#include <cairn/error.h>
#include <cairn/limits.h>
#include <gmock/gmock.h>

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

namespace cairn {
namespace {

TEST(ByteLimiter, ARequestMustBeLessThanTheLimit) {
  ByteLimiter limiter(100);
  limiter.check(99);
  for (const std::int64_t bytes : {100, 101}) {
    try {
      limiter.check(bytes);
      FAIL() << bytes;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kInvalidArgument);
      EXPECT_THAT(e.what(), ::testing::HasSubstr("less than the limit of 100 bytes"));
    }
  }
}

TEST(ByteLimiter, LimitsArePositiveOrNone) {
  EXPECT_THROW(ByteLimiter(0), Error);
  EXPECT_THROW(ByteLimiter(-1), Error);
  ByteLimiter none(std::nullopt);
  const auto all = none.reserve(std::numeric_limits<std::int64_t>::max());
  const auto more = none.reserve(std::numeric_limits<std::int64_t>::max());
}

TEST(ByteLimiter, NeverMoreIsOutThanTheLimit) {
  ByteLimiter limiter(100);
  std::atomic<int> out{0};
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto held = limiter.reserve(40);
        const int now = out += 40;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        out -= 40;
      }
    });
  for (auto& thread : threads) thread.join();
  // a third one would leave nothing, and a request must be less than what is free
  EXPECT_LE(most, 80);
}

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

TEST(MemoryRegulator, TheMostMustLeaveRoom) {
  EXPECT_THROW(MemoryRegulator(12.5), Error);
  MemoryRegulator(12.6);
}

}  // namespace
}  // namespace cairn
