// byte_limiter_test.cc -- bytes in flight.
#include <cairn/error.h>
#include <cairn/orbax/byte_limiter.h>
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

}  // namespace
}  // namespace cairn
