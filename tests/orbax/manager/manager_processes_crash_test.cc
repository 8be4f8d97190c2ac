// manager_processes_crash_test.cc -- two processes, each with a manager, save the steps of one
// directory; one of them is killed at a random moment. The other one ends soon and says why, no
// committed step is lost, and the next pair goes on. (ThreadSanitizer leaves this file out: its
// children start threads.)
#include <cairn/checkpoint_manager.h>
#include <cairn/distributed.h>
#include <cairn/open.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/orbax/manager/small_steps.h"
#include "tests/support/matchers.h"
#include "tests/support/sanitizers.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::TempDir;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;

constexpr std::size_t kKeep = 3;
constexpr std::int64_t kStepsOfPair = 12;
// A process whose peer has died must end within this time.
constexpr auto kBound = std::chrono::seconds(60);
constexpr auto kJoin = std::chrono::seconds(5);  // for a peer that dies before it joins
constexpr int kSaved = 0;                        // exit status: all steps are saved
constexpr int kPeerDied = 10;                    // an error that names the other process
constexpr int kOther = 11;

Tree state(std::int64_t step) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> frozen(1000);
  std::ranges::generate(frozen, random);
  return Tree{{"x", step},
              {"w", Array::from<std::int64_t>({step, -step}, {2})},
              {"frozen", Array::from<std::uint64_t>(frozen, {1000})}};
}

struct Job {
  std::string root;  // of the steps
  std::string meeting;
  CommitProtocol protocol;
  bool is_async;
  Reuse reuse = Reuse::kNone;
};

void save_steps(const Job& job, std::size_t process) {
  CheckpointManagerOptions options{.max_to_keep = kKeep,
                                   .enable_async_checkpointing = job.is_async};
  options.handler.commit_protocol = job.protocol;
  options.handler.reuse = job.reuse;
  options.handler.resources.threads = 1;
  options.handler.multiprocessing_options.coordinator = files_coordinator({.directory = job.meeting,
                                                                           .process_index = process,
                                                                           .process_count = 2,
                                                                           .join_timeout = kJoin});
  CheckpointManager manager(job.root, options);
  const std::int64_t first = manager.latest_step().value_or(0) + 1;
  for (std::int64_t step = first; step < first + kStepsOfPair; ++step)
    manager.save(step, PyTreeSaveArgs{state(step)});
  manager.close();
}

pid_t start(const Job& job, std::size_t process) {
  const pid_t child = fork();
  if (child != 0) return child;
  int status = kSaved;
  try {
    save_steps(job, process);
  } catch (const Error& e) {
    const std::string peer = "process " + std::to_string(1 - process);
    const bool is_clear = e.message().find(peer) != std::string::npos;
    if (!is_clear) std::fprintf(stderr, "process %zu: %s\n", process, e.what());
    status = is_clear ? kPeerDied : kOther;
  }
  _exit(status);
}

// Returns the exit status, or -1 for a process that did not end in time (and is killed).
int status_of(pid_t child) {
  const auto last = steady_clock::now() + kBound;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (steady_clock::now() > last) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// The steps as a process sees them that starts now.
std::vector<std::int64_t> committed(const Job& job) {
  CheckpointManagerOptions options;
  options.handler.commit_protocol = job.protocol;
  // No threads: in QEMU's user mode, a fork of a process that has them cannot start its own.
  options.handler.resources.threads = 1;
  options.read_only = true;
  CheckpointManager manager(job.root, options);
  for (const std::int64_t step : manager.all_steps()) EXPECT_EQ(manager.restore(step), state(step));
  return manager.all_steps();
}

// A sanitizer sees nothing of who is killed, and takes fewer pairs.
constexpr int kRounds = testing::kSanitized ? 12 : 25;

class ManagerProcessesCrash : public ::testing::TestWithParam<CommitProtocol> {};
INSTANTIATE_TEST_SUITE_P(Protocols, ManagerProcessesCrash,
                         ::testing::Values(CommitProtocol::kAtomicRename,
                                           CommitProtocol::kCommitMarker),
                         testing::protocol_name);

TEST_P(ManagerProcessesCrash, TheOtherEndsAndTheNextPairGoesOn) {
  const TempDir dir = TempDir::in_memory();
  std::mt19937 random(testing::seed());
  int killed_in_work = 0;
  std::int64_t newest = 0;
  // The time of a pair that nobody kills, which spreads the kills over its work.
  milliseconds whole(0);
  for (int round = 0; round < kRounds; ++round) {
    const Job job{.root = dir / "run",
                  .meeting = dir / "meeting",
                  .protocol = GetParam(),
                  .is_async = round % 2 == 1,
                  .reuse = round % 4 < 2 ? Reuse::kNone : Reuse::kUnchanged};
    const auto begin = steady_clock::now();
    const std::array<pid_t, 2> pair{start(job, 0), start(job, 1)};
    const std::size_t victim = random() % 2;
    if (round > 1) {
      std::this_thread::sleep_for(milliseconds(random() % (whole.count() + 1)));
      kill(pair[victim], SIGKILL);
    }
    const int other = status_of(pair[1 - victim]);
    const int ended = status_of(pair[victim]);
    if (round <= 1) {
      ASSERT_EQ(other, kSaved);
      ASSERT_EQ(ended, kSaved);
      whole = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
    }
    SCOPED_TRACE("round " + std::to_string(round) + ", killed process " + std::to_string(victim));
    ASSERT_TRUE(other == kSaved || other == kPeerDied) << other;
    killed_in_work += other == kPeerDied ? 1 : 0;
    const auto steps = committed(job);
    ASSERT_FALSE(steps.empty());
    ASSERT_GE(steps.back(), newest) << "a committed step is lost";
    newest = steps.back();
  }
  EXPECT_GT(killed_in_work, 0);
  // What is left of the kills does not stop a pair that runs to its end.
  const Job last{
      .root = dir / "run", .meeting = dir / "meeting", .protocol = GetParam(), .is_async = false};
  const std::array<pid_t, 2> pair{start(last, 0), start(last, 1)};
  EXPECT_EQ(status_of(pair[0]), kSaved);
  EXPECT_EQ(status_of(pair[1]), kSaved);
  newest += kStepsOfPair;
  const auto steps = committed(last);
  EXPECT_THAT(std::vector<std::int64_t>(steps.end() - kKeep, steps.end()),
              ElementsAre(newest - 2, newest - 1, newest));
}

}  // namespace
}  // namespace cairn::orbax
