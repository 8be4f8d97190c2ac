// Processes that meet, here as threads: in memory, and through files.
#include <cairn/distributed.h>

#include <functional>
#include <thread>
#include <tuple>

#include "tests/distributed/coordinator_contract.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::bytes_of;
using testing::ContractPart;
using testing::FailsWith;
using testing::kLong;
using testing::kShort;
using testing::TempDir;
using testing::text_of;

// How the threads of a test come by their coordinators: each calls it with its index.
struct Kind {
  std::string name;
  std::function<std::function<std::unique_ptr<Coordinator>(std::size_t)>(std::size_t count,
                                                                         const std::string& folder)>
      start;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> kinds() {
  const auto threads = [](std::size_t count, const std::string& /*folder*/) {
    const auto all =
        std::make_shared<std::vector<std::unique_ptr<Coordinator>>>(thread_coordinators(count));
    return [all](std::size_t p) { return std::move((*all)[p]); };
  };
  const auto files = [](const std::string& run_id) {
    return [run_id](std::size_t count, const std::string& folder) {
      return [=](std::size_t p) {
        return files_coordinator(
            {.directory = folder, .process_index = p, .process_count = count, .run_id = run_id});
      };
    };
  };
  return {{"threads", threads}, {"files", files("")}, {"files_of_a_run", files("run-1.a")}};
}

class EveryCoordinator
    : public ::testing::TestWithParam<std::tuple<Kind, std::size_t, ContractPart>> {};
INSTANTIATE_TEST_SUITE_P(Contract, EveryCoordinator,
                         ::testing::Combine(::testing::ValuesIn(kinds()),
                                            ::testing::Values(1, 2, 7),
                                            ::testing::ValuesIn(testing::coordinator_contract())),
                         [](const auto& of) {
                           return std::get<0>(of.param).name + "_" +
                                  std::to_string(std::get<1>(of.param)) + "_" +
                                  std::get<2>(of.param).name;
                         });

TEST_P(EveryCoordinator, KeepsTheContract) {
  const auto& [kind, count, part] = GetParam();
  const TempDir folder = TempDir::in_memory();
  const auto take = kind.start(count, folder.path());
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < count; ++p)
    threads.emplace_back([&, p, count = count, run = part.run] {
      const auto mine = take(p);
      EXPECT_EQ(mine->process_index(), p);
      EXPECT_EQ(mine->process_count(), count);
      run(*mine);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "files are left";
}

// The last one to leave removes the folder, also if both leave at the same moment.
TEST(Files, NothingIsLeftByTwoThatLeaveAtOnce) {
  const TempDir folder = TempDir::in_memory();
  for (int round = 0; round < 100; ++round) {
    std::vector<std::thread> threads;
    for (std::size_t p = 0; p < 2; ++p)
      threads.emplace_back([&, p] {
        files_coordinator({.directory = folder.path(), .process_index = p, .process_count = 2})
            ->barrier("b", kLong);
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(std::filesystem::is_empty(folder.path())) << "round " << round;
  }
}

TEST(SingleProcess, HasNothingToWaitFor) {
  const auto job = single_process_coordinator();
  EXPECT_EQ(job->process_index(), 0U);
  EXPECT_EQ(job->process_count(), 1U);
  job->barrier("b", Coordinator::Timeout(0));
  EXPECT_EQ(text_of(job->broadcast("c", as_bytes("v"), 0, Coordinator::Timeout(0))), "v");
  EXPECT_EQ(job->all_gather("g", as_bytes("v"), Coordinator::Timeout(0)),
            (std::vector<Bytes>{bytes_of("v")}));
  EXPECT_THAT([&] { job->broadcast("c", {}, 1, Coordinator::Timeout(0)); },
              FailsWith(Code::kInvalidArgument, "process 1 cannot broadcast in a job of 1"));
}

TEST(ThreadsAsProcesses, ATimeOutNamesWhoIsMissing) {
  auto job = thread_coordinators(4);
  EXPECT_THAT([&] { job[1]->barrier("load", kShort); },
              FailsWith(Code::kUnavailable, "'load': processes 0, 2, 3 did not arrive"));
  std::thread other([&] {
    EXPECT_THAT([&] { job[2]->barrier("save", kLong); },
                FailsWith(Code::kUnavailable, "'save': processes 1, 3 did"));
  });
  EXPECT_THAT(
      [&] { job[0]->barrier("save", std::chrono::seconds(1)); },
      FailsWith(Code::kUnavailable,
                "'save': processes 1, 3 did not arrive before process 0 timed out after 1 s"));
  other.join();
}

TEST(ThreadsAsProcesses, LateProcessesFailToo) {
  auto job = thread_coordinators(2);
  EXPECT_THAT([&] { job[0]->barrier("b", kShort); },
              FailsWith(Code::kUnavailable, "process 1 did not arrive before process 0 timed out"));
  EXPECT_THAT([&] { job[1]->barrier("b", kLong); },
              FailsWith(Code::kUnavailable, "process 1 did not arrive before process 0 timed out"));
  std::thread other([&] { job[1]->barrier("b", kLong); });
  job[0]->barrier("b", kLong);  // the name can be used again
  other.join();
}

TEST(ThreadsAsProcesses, AProcessThatEndsIsNotWaitedFor) {
  auto job = thread_coordinators(3);
  std::thread waiting([&] {
    EXPECT_THAT([&] { job[0]->barrier("b", kLong); },
                FailsWith(Code::kUnavailable, "'b': process 1 ended before arriving"));
  });
  job[1].reset();
  waiting.join();
  EXPECT_THAT([&] { job[2]->barrier("b", kLong); },
              FailsWith(Code::kUnavailable, "'b': process 1 ended before arriving"));
  EXPECT_THAT([&] { job[0]->barrier("c", kLong); },
              FailsWith(Code::kUnavailable, "'c': process 1 ended before arriving"));
}

TEST(ThreadsAsProcesses, OneThatHasBeenThereMayEnd) {
  auto job = thread_coordinators(2);
  std::thread first([&] {
    job[0]->barrier("b", kLong);
    job[0].reset();
  });
  job[1]->barrier("b", kLong);
  first.join();
}

TEST(ThreadsAsProcesses, NoTimeOutIsTooLong) {
  auto job = thread_coordinators(2);
  std::thread other([&] { job[1]->barrier("b", Coordinator::Timeout::max()); });
  job[0]->barrier("b", Coordinator::Timeout::max());
  other.join();
}

TEST(ThreadsAsProcesses, AJobHasProcesses) {
  EXPECT_THAT([] { thread_coordinators(0); }, FailsWith(Code::kInvalidArgument, "at least one"));
}

}  // namespace
}  // namespace cairn
