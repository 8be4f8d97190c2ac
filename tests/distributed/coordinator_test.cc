// Processes that meet, here as threads.
#include <cairn/distributed.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

constexpr Coordinator::Timeout kLong = std::chrono::seconds(60);
constexpr Coordinator::Timeout kShort = std::chrono::milliseconds(20);

Bytes bytes_of(std::string_view text) { return {as_bytes(text).begin(), as_bytes(text).end()}; }
std::string text_of(const Bytes& bytes) { return std::string(as_text(bytes)); }

// Runs each process's part in a thread of its own; a coordinator ends with its thread.
void run_processes(std::size_t count, const std::function<void(Coordinator&)>& part) {
  auto processes = threads_as_processes(count);
  std::vector<std::thread> threads;
  for (auto& process : processes)
    threads.emplace_back([&part, mine = std::move(process)]() mutable {
      part(*mine);
      mine.reset();
    });
  for (std::thread& thread : threads) thread.join();
}

// A coordinator test runs for one process and for several.
class EveryCoordinator : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, EveryCoordinator, ::testing::Values(1, 2, 7));

TEST_P(EveryCoordinator, NobodyPassesABarrierBeforeAllHaveCome) {
  std::atomic<std::size_t> come = 0;
  run_processes(GetParam(), [&](Coordinator& job) {
    for (std::size_t round = 1; round <= 200; ++round) {
      ++come;
      job.barrier("round", kLong);
      EXPECT_GE(come.load(), round * job.process_count());
      job.barrier("next", kLong);
    }
  });
  EXPECT_EQ(come.load(), 200 * GetParam());
}

TEST_P(EveryCoordinator, GathersInTheOrderOfProcesses) {
  run_processes(GetParam(), [&](Coordinator& job) {
    for (int round = 0; round < 50; ++round) {
      const std::string mine = std::to_string(round) + " of " + std::to_string(job.process_index());
      const std::vector<Bytes> all = job.all_gather("gather", as_bytes(mine), kLong);
      ASSERT_EQ(all.size(), job.process_count());
      for (std::size_t p = 0; p < all.size(); ++p) EXPECT_EQ(text_of(all[p]), std::to_string(round) + " of " + std::to_string(p));
    }
  });
}

TEST_P(EveryCoordinator, BroadcastsWhatTheRootGave) {
  run_processes(GetParam(), [&](Coordinator& job) {
    for (std::size_t root = 0; root < job.process_count(); ++root) {
      const std::string mine = "from " + std::to_string(job.process_index());
      EXPECT_EQ(text_of(job.broadcast("cast", as_bytes(mine), root, kLong)), "from " + std::to_string(root));
    }
    EXPECT_THAT([&] { job.broadcast("cast", {}, job.process_count(), kLong); }, FailsWith(Code::kInvalidArgument, "cannot broadcast"));
  });
}

TEST_P(EveryCoordinator, NamesAreMetIndependently) {
  run_processes(GetParam(), [&](Coordinator& job) {
    std::thread background([&] {
      for (int i = 0; i < 100; ++i) job.barrier("background", kLong);
    });
    for (int i = 0; i < 100; ++i) EXPECT_EQ(job.all_gather("main", as_bytes("x"), kLong).size(), job.process_count());
    background.join();
  });
}

TEST(SingleProcess, HasNothingToWaitFor) {
  const auto job = single_process();
  EXPECT_EQ(job->process_index(), 0U);
  EXPECT_EQ(job->process_count(), 1U);
  job->barrier("b", Coordinator::Timeout(0));
  EXPECT_EQ(text_of(job->broadcast("c", as_bytes("v"), 0, Coordinator::Timeout(0))), "v");
  EXPECT_EQ(job->all_gather("g", as_bytes("v"), Coordinator::Timeout(0)), (std::vector<Bytes>{bytes_of("v")}));
  EXPECT_THAT([&] { job->broadcast("c", {}, 1, Coordinator::Timeout(0)); },
              FailsWith(Code::kInvalidArgument, "process 1 cannot broadcast in a job of 1"));
}

TEST(ThreadsAsProcesses, ATimeOutNamesWhoIsMissing) {
  auto job = threads_as_processes(4);
  EXPECT_THAT([&] { job[1]->barrier("load", kShort); }, FailsWith(Code::kUnavailable, "'load': processes 0, 2, 3 did not come"));
  std::thread other(
      [&] { EXPECT_THAT([&] { job[2]->barrier("save", kLong); }, FailsWith(Code::kUnavailable, "'save': processes 1, 3 did")); });
  EXPECT_THAT([&] { job[0]->barrier("save", std::chrono::seconds(1)); },
              FailsWith(Code::kUnavailable, "'save': processes 1, 3 did not come before process 0 gave up after 1 s"));
  other.join();
}

TEST(ThreadsAsProcesses, WhoComesTooLateFailsToo) {
  auto job = threads_as_processes(2);
  EXPECT_THAT([&] { job[0]->barrier("b", kShort); }, FailsWith(Code::kUnavailable, "process 1 did not come before process 0 gave up"));
  EXPECT_THAT([&] { job[1]->barrier("b", kLong); }, FailsWith(Code::kUnavailable, "process 1 did not come before process 0 gave up"));
  std::thread other([&] { job[1]->barrier("b", kLong); });
  job[0]->barrier("b", kLong);  // the name can be used again
  other.join();
}

TEST(ThreadsAsProcesses, AProcessThatEndsIsNotWaitedFor) {
  auto job = threads_as_processes(3);
  std::thread waiting(
      [&] { EXPECT_THAT([&] { job[0]->barrier("b", kLong); }, FailsWith(Code::kUnavailable, "'b': process 1 ended without coming")); });
  job[1].reset();
  waiting.join();
  EXPECT_THAT([&] { job[2]->barrier("b", kLong); }, FailsWith(Code::kUnavailable, "'b': process 1 ended without coming"));
  EXPECT_THAT([&] { job[0]->barrier("c", kLong); }, FailsWith(Code::kUnavailable, "'c': process 1 ended without coming"));
}

TEST(ThreadsAsProcesses, OneThatHasBeenThereMayEnd) {
  auto job = threads_as_processes(2);
  std::thread first([&] {
    job[0]->barrier("b", kLong);
    job[0].reset();
  });
  job[1]->barrier("b", kLong);
  first.join();
}

TEST(ThreadsAsProcesses, NoTimeOutIsTooLong) {
  auto job = threads_as_processes(2);
  std::thread other([&] { job[1]->barrier("b", Coordinator::Timeout::max()); });
  job[0]->barrier("b", Coordinator::Timeout::max());
  other.join();
}

TEST(ThreadsAsProcesses, AJobHasProcesses) {
  EXPECT_THAT([] { threads_as_processes(0); }, FailsWith(Code::kInvalidArgument, "at least one"));
}

}  // namespace
}  // namespace cairn
