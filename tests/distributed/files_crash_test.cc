// Meeting through files in processes of their own, some of which are killed. (ThreadSanitizer
// leaves this file out: its children start threads.)
#include <cairn/distributed.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>

#include "tests/distributed/coordinator_contract.h"
#include "tests/support/kill_at.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::ContractPart;
using testing::FailsWith;
using testing::kLong;
using testing::TempDir;

FilesJob part_of_job(const TempDir& folder, std::size_t process, std::size_t count) {
  return {.directory = folder.path(),
          .process_index = process,
          .process_count = count,
          .join_timeout = kLong};
}

// Starts a process that does its part, and ends with status 0 if all its expectations were met.
pid_t start(const FilesJob& job, const std::function<void(Coordinator&)>& part) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    part(*files_coordinator(job));
  } catch (const std::exception& e) {
    ADD_FAILURE() << "process " << job.process_index << ": " << e.what();
  }
  std::fflush(nullptr);
  std::cout.flush();
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

void expect_good(pid_t child) {
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

class FilesProcesses : public ::testing::TestWithParam<ContractPart> {};
INSTANTIATE_TEST_SUITE_P(Contract, FilesProcesses,
                         ::testing::ValuesIn(testing::coordinator_contract()),
                         [](const auto& of) { return of.param.name; });

TEST_P(FilesProcesses, KeepTheContract) {
  const TempDir folder = TempDir::in_memory();
  constexpr std::size_t kCount = 4;
  std::vector<pid_t> children;
  for (std::size_t p = 0; p < kCount; ++p)
    children.push_back(start(part_of_job(folder, p, kCount), GetParam().run));
  for (const pid_t child : children) expect_good(child);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "files are left";
}

TEST(FilesProcess, OneThatIsKilledIsNamedAndTheNextRunWorks) {
  const TempDir folder = TempDir::in_memory();
  constexpr std::size_t kCount = 4;
  const auto part = [](Coordinator& job) {
    job.barrier("begin", kLong);
    if (job.process_index() == 2) raise(SIGKILL);
    EXPECT_THAT([&] { job.barrier("save", kLong); },
                FailsWith(Code::kUnavailable, "'save': process 2 ended before arriving"));
  };
  std::vector<pid_t> children;
  for (std::size_t p = 0; p < kCount; ++p)
    children.push_back(start(part_of_job(folder, p, kCount), part));
  for (std::size_t p = 0; p < kCount; ++p) {
    if (p == 2) {
      int status = 0;
      ASSERT_EQ(waitpid(children[p], &status, 0), children[p]);
      EXPECT_TRUE(WIFSIGNALED(status));
    } else {
      expect_good(children[p]);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the last of those who live clears up";
}

TEST(FilesProcess, AJobThatIsKilledAltogetherLeavesNothingThatConfuses) {
  const TempDir folder = TempDir::in_memory();
  for (int again = 0; again < 3; ++again) {
    std::vector<pid_t> children;
    for (std::size_t p = 0; p < 3; ++p)
      children.push_back(start(part_of_job(folder, p, 3), [](Coordinator& job) {
        job.barrier("begin", kLong);
        raise(SIGKILL);
      }));
    for (const pid_t child : children) ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  }
  std::vector<pid_t> children;
  for (std::size_t p = 0; p < 2; ++p)
    children.push_back(start(part_of_job(folder, p, 2), [](Coordinator& job) {
      EXPECT_EQ(job.all_gather("begin", {}, kLong).size(), 2U);
    }));
  for (const pid_t child : children) expect_good(child);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Process 1 is killed at each of its calls to the file system in turn: process 0 gets through, or
// is told that it was process 1.
TEST(FilesProcess, KilledAtAnyCallItIsNamedOrHadCome) {
  int kills = 0;
  for (int n = 0;; n += testing::kKillStep) {
    SCOPED_TRACE(n);
    const TempDir folder = TempDir::in_memory();
    const auto first = [&] {
      FilesJob job = part_of_job(folder, 0, 2);
      job.join_timeout = std::chrono::seconds(2);
      const auto done = try_call([&] {
        const auto mine = files_coordinator(job);
        return mine->all_gather("g", as_bytes("a"), kLong).size() +
               mine->all_gather("g", as_bytes("b"), kLong).size();
      });
      if (done) {
        EXPECT_EQ(done.value(), 4U);
      } else {
        EXPECT_EQ(done.error().code(), Code::kUnavailable) << done.error().message();
        EXPECT_NE(done.error().message().find("process 1"), std::string::npos)
            << done.error().message();
      }
    };
    const auto second = [&] {
      const auto mine = files_coordinator(part_of_job(folder, 1, 2));
      mine->all_gather("g", as_bytes("a"), kLong);
      mine->all_gather("g", as_bytes("b"), kLong);
    };
    const auto ended = testing::run_and_kill_at(n, second, first);
    ASSERT_NE(ended, testing::Ended::kBadly);
    if (ended == testing::Ended::kWell) break;
    ++kills;
  }
  EXPECT_GT(kills, 20 / testing::kKillStep);
}

}  // namespace
}  // namespace cairn
