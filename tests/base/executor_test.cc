#include <cairn/base/executor.h>
#include <cairn/error.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

TEST(Executor, CallsEachTaskOnce) {
  for (const std::size_t threads : {1U, 2U, 3U, 8U}) {
    Executor executor(threads);
    EXPECT_EQ(executor.threads(), threads);
    for (const std::size_t n : {0U, 1U, 2U, 7U, 1000U}) {
      std::vector<std::atomic<int>> calls(n);
      executor.for_each(n, [&](std::size_t i) { ++calls[i]; });
      for (std::size_t i = 0; i < n; ++i)
        EXPECT_EQ(calls[i], 1) << i << " of " << n << " on " << threads;
    }
  }
}

TEST(Executor, UsesSeveralThreadsAtOnceAndTheCallerIsOneOfThem) {
  Executor executor(4);
  std::latch all_here(4);  // passed only if four tasks run at the same time
  std::mutex mutex;
  std::set<std::thread::id> seen;
  executor.for_each(4, [&](std::size_t) {
    all_here.arrive_and_wait();
    const std::scoped_lock lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 4U);
  EXPECT_TRUE(seen.contains(std::this_thread::get_id()));
}

TEST(Executor, OneThreadIsTheCallersAndKeepsTheOrder) {
  Executor executor(1);
  const auto caller = std::this_thread::get_id();
  std::vector<std::size_t> order;
  executor.for_each(5, [&](std::size_t i) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

TEST(Executor, TasksThatExpectWaitingRunAtOnceWhateverTheNumberOfThreads) {
  for (const std::size_t threads : {1U, 2U, 16U}) {
    Executor executor(threads);
    std::latch all_here(8);
    executor.for_each(20, [&](std::size_t i) {
      expect_waiting(8);
      if (i < 8) all_here.arrive_and_wait();
    });
    // The threads that came for that do no other work.
    std::atomic<std::size_t> inside{0}, most{0};
    executor.for_each(200, [&](std::size_t) {
      const std::size_t now = ++inside;
      for (std::size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::yield();
      --inside;
    });
    EXPECT_LE(most, threads);
  }
}

TEST(Executor, WaitingIsExpectedOfTheOuterCallsToo) {
  Executor executor(2);
  std::latch all_here(6);
  executor.for_each(6, [&](std::size_t) {
    executor.for_each(2, [&](std::size_t i) {
      expect_waiting(6);
      if (i == 0) all_here.arrive_and_wait();
    });
  });
  expect_waiting(100);  // outside of any call: nothing happens
}

TEST(Executor, AnErrorOfATaskThatWaitsIsThrown) {
  Executor executor(2);
  std::atomic<std::size_t> calls{0};
  EXPECT_THAT(
      [&] {
        executor.for_each(1000, [&](std::size_t i) {
          expect_waiting(8);
          ++calls;
          if (i == 3) throw Error(Code::kIo, "the store is gone");
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
      },
      FailsWith(Code::kIo, "the store is gone"));
  EXPECT_LT(calls, 1000U);
}

TEST(Executor, NoMoreThreadsThanWorkersHoldATurn) {
  Executor executor(2);
  std::atomic<std::size_t> inside{0};
  executor.for_each(40, [&](std::size_t) {
    expect_waiting(8);
    const Executor::Turn turn(executor);
    EXPECT_LE(++inside, 2U);
    std::this_thread::yield();
    --inside;
  });
}

TEST(Executor, DefaultHasAtLeastOneThread) {
  EXPECT_GE(default_executor().threads(), 1U);
  EXPECT_EQ(&default_executor(), &default_executor());
  EXPECT_EQ(Executor().threads(), default_executor().threads());
}

TEST(Executor, NestsWithoutDeadlock) {
  Executor executor(3);
  std::atomic<std::size_t> sum = 0;
  executor.for_each(20, [&](std::size_t i) {
    executor.for_each(10, [&](std::size_t j) {
      executor.for_each(5, [&](std::size_t k) { sum += i * 50 + j * 5 + k; });
    });
  });
  EXPECT_EQ(sum, 999U * 1000U / 2U);
}

TEST(Executor, ServesManyCallersAtOnce) {
  Executor executor(3);
  std::atomic<std::size_t> calls = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) executor.for_each(20, [&](std::size_t) { ++calls; });
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(calls, 6U * 50U * 20U);
}

TEST(Executor, TheFirstErrorWinsAndDropsWhatHasNotBegun) {
  for (const std::size_t threads : {1U, 4U}) {
    Executor executor(threads);
    std::atomic<std::size_t> calls = 0;
    const auto run = [&] {
      executor.for_each(100000, [&](std::size_t i) {
        ++calls;
        if (i == 3) throw Error(Code::kDataLoss, "task 3");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    };
    EXPECT_THAT(run, FailsWith(Code::kDataLoss, "task 3"));
    EXPECT_LT(calls, 50000U);
    EXPECT_NO_THROW(executor.for_each(10, [](std::size_t) {})) << "it works on after an error";
  }
}

TEST(Executor, WaitsForRunningTasksBeforeItThrows) {
  Executor executor(4);
  std::atomic<int> running = 0;
  std::latch all_here(4);
  EXPECT_THROW(executor.for_each(4,
                                 [&](std::size_t i) {
                                   ++running;
                                   all_here.arrive_and_wait();
                                   if (i == 0) {
                                     --running;
                                     throw std::runtime_error("x");
                                   }
                                   std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                   --running;
                                 }),
               std::runtime_error);
  EXPECT_EQ(running, 0);
}

TEST(Executor, AnErrorOfANestedCallReachesTheOuterOne) {
  Executor executor(3);
  EXPECT_THAT(
      [&] {
        executor.for_each(8, [&](std::size_t i) {
          executor.for_each(8, [&](std::size_t j) {
            if (i == 5 && j == 5) throw Error(Code::kIo, "inner");
          });
        });
      },
      FailsWith(Code::kIo, "inner"));
}

TEST(Workers, ZeroThreadsShareTheDefaultExecutor) {
  EXPECT_EQ(&Workers(0).executor(), &default_executor());
  EXPECT_EQ(Workers(3).executor().threads(), 3U);
}

TEST(ByteBudget, NeverGivesOutMoreThanItsLimit) {
  ByteBudget budget(100);
  Executor executor(8);
  std::atomic<std::uint64_t> out = 0;
  executor.for_each(500, [&](std::size_t i) {
    const std::uint64_t bytes = i % 60;
    const auto lease = budget.acquire(bytes);
    EXPECT_LE(out += bytes, 100U);
    std::this_thread::yield();
    out -= bytes;
  });
  EXPECT_LE(budget.peak(), 100U);
  EXPECT_GE(budget.peak(), 59U);
  EXPECT_EQ(budget.limit(), 100U);
}

TEST(ByteBudget, ARequestLargerThanTheLimitIsGrantedAlone) {
  ByteBudget budget(100);
  std::atomic<int> inside = 0;
  Executor executor(4);
  executor.for_each(40, [&](std::size_t) {
    const auto lease = budget.acquire(~std::uint64_t{0});
    EXPECT_EQ(++inside, 1);
    std::this_thread::yield();
    --inside;
  });
}

TEST(ByteBudget, LeasesMoveAndEndOnce) {
  ByteBudget budget(10);
  auto a = budget.acquire(6);
  auto b = std::move(a);
  a.release();            // holds nothing any more
  b = budget.acquire(4);  // the six go back once the four are there
  EXPECT_EQ(budget.peak(), 10U);
  auto c = budget.acquire(6);
  b = std::move(c);
  b.release();
  b.release();
  const auto all = budget.acquire(10);
  EXPECT_EQ(budget.peak(), 10U);
}

TEST(ByteBudget, AWaitingThreadIsWoken) {
  ByteBudget budget(10);
  auto held = budget.acquire(8);
  std::atomic<bool> granted = false;
  std::thread waiter([&] {
    const auto lease = budget.acquire(5);
    granted = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(granted);
  held.release();
  waiter.join();
  EXPECT_TRUE(granted);
}

}  // namespace
}  // namespace cairn
