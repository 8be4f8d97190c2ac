// staging_test.cc -- memory that one save after the other uses.
#include <cairn/array/staging.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cairn {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

TEST(StagingPool, GivesMemoryAgainThatNobodyUses) {
  const auto pool = std::make_shared<StagingPool>(100 * kMiB);
  auto first = pool->take(4 * kMiB);
  const std::byte* const memory = first->data();
  const auto second = pool->take(4 * kMiB);
  EXPECT_NE(second->data(), memory);  // the first is in use
  first.reset();
  EXPECT_EQ(pool->take(3 * kMiB)->data(), memory);
  EXPECT_EQ(pool->take(4 * kMiB)->data(), memory);
  EXPECT_GE(pool->take(5 * kMiB)->size(), 5 * kMiB);
}

TEST(StagingPool, DoesNotGiveMuchMoreThanIsNeeded) {
  const auto pool = std::make_shared<StagingPool>(100 * kMiB);
  pool->take(40 * kMiB).reset();
  EXPECT_LT(pool->take(kMiB)->size(), 3 * kMiB);
}

TEST(StagingPool, KeepsNoMoreThanItMay) {
  const auto pool = std::make_shared<StagingPool>(10 * kMiB);
  auto a = pool->take(6 * kMiB), b = pool->take(6 * kMiB);
  const std::byte* const memory = a->data();
  a->data()[0] = b->data()[0] = std::byte{1};
  a.reset();
  b.reset();  // too much beside the first
  EXPECT_EQ(pool->take(6 * kMiB)->data(), memory);
  const auto none = std::make_shared<StagingPool>(0);
  none->take(4 * kMiB)->data()[0] = std::byte{1};
  EXPECT_EQ(none->take(4 * kMiB)->data()[0], std::byte{0});  // new memory is clear
}

TEST(StagingPool, CloseFreesWhatIsKeptAndWhatComesBack) {
  const auto pool = std::make_shared<StagingPool>(100 * kMiB);
  auto used = pool->take(4 * kMiB);
  pool->take(4 * kMiB)->data()[0] = std::byte{1};
  used->data()[0] = std::byte{1};
  pool->close();
  used.reset();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pool->take(4 * kMiB)->data()[0], std::byte{0});
}

TEST(StagingPool, BuffersOutliveThePool) {
  auto pool = std::make_shared<StagingPool>(100 * kMiB);
  const auto used = pool->take(4 * kMiB);
  pool.reset();
  used->data()[used->size() - 1] = std::byte{1};
}

TEST(StagingPool, ManyThreads) {
  const auto pool = std::make_shared<StagingPool>(8 * kMiB);
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto mine = pool->take(3 * kMiB);
        mine->data()[100] = static_cast<std::byte>(t);
        std::this_thread::yield();
        ASSERT_EQ(mine->data()[100], static_cast<std::byte>(t));
      }
    });
}

}  // namespace
}  // namespace cairn
