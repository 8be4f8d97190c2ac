// manager_fault_test.cc -- every system call that changes files fails in turn, while a manager
// saves a step, removes an older one and removes another one on request (and in the scenarios of
// run_scenarios.h): somebody is told, no older step is lost before the new one is there, and the
// next manager goes on.
#include <cairn/checkpoint_manager.h>
#include <cairn/open.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/orbax/manager/run_scenarios.h"
#include "tests/orbax/manager/small_steps.h"
#include "tests/support/fail_at.h"
#include "tests/support/matchers.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::Faulted;
using cairn::testing::run_and_fail_at;
using cairn::testing::save_step;
using cairn::testing::TempDir;
using cairn::testing::three_steps;
using ::testing::Contains;
using ::testing::ElementsAre;

class CheckpointManagerFault : public ::testing::TestWithParam<std::tuple<int, CommitProtocol>> {};

TEST_P(CheckpointManagerFault, NoStepIsLost) {
  const auto [error, protocol] = GetParam();
  const CheckpointManagerOptions options = three_steps(protocol);
  int told = 0;
  for (int n = 0;; n += testing::kKillStep) {
    const TempDir dir = TempDir::in_memory();
    const std::string root = dir / "run";
    {
      CheckpointManager manager(root, options);
      for (const std::int64_t step : {1, 2, 3}) save_step(manager, step);
    }
    const Faulted result = run_and_fail_at(n, error, [&] {
      CheckpointManager manager(root, options);
      save_step(manager, 4);  // removes step 1
      manager.remove(2);
    });
    SCOPED_TRACE(std::to_string(n) + ": " + result.call);
    ASSERT_TRUE(result.ended);
    CheckpointManager manager(root, options);
    const auto steps = manager.all_steps();
    for (const std::int64_t step : steps)
      ASSERT_EQ(std::get<std::int64_t>(manager.restore(step).at("x").value()), step);
    ASSERT_THAT(steps, Contains(3));
    if (steps.back() == 3) {
      ASSERT_THAT(steps, ElementsAre(1, 2, 3));
    }
    if (!result.error) {
      ASSERT_THAT(steps, ElementsAre(3, 4));
    }
    told += result.error ? 1 : 0;
    for (const std::int64_t step : {5, 6, 7}) save_step(manager, step);
    ASSERT_THAT(manager.all_steps(), ElementsAre(5, 6, 7));
    if (!result.injected) break;
  }
  EXPECT_GT(told, 2);
}

INSTANTIATE_TEST_SUITE_P(Errors, CheckpointManagerFault,
                         ::testing::Combine(::testing::Values(ENOSPC, EIO, EACCES),
                                            ::testing::Values(CommitProtocol::kAtomicRename,
                                                              CommitProtocol::kCommitMarker)),
                         [](const auto& of) {
                           const bool in_place =
                               std::get<1>(of.param) == CommitProtocol::kCommitMarker;
                           return std::to_string(std::get<0>(of.param)) +
                                  (in_place ? "CommitMarker" : "AtomicRename");
                         });

class RunScenarioFault : public ::testing::TestWithParam<std::tuple<int, testing::RunScenario>> {};
INSTANTIATE_TEST_SUITE_P(Errors, RunScenarioFault,
                         ::testing::Combine(::testing::Values(ENOSPC, EIO, EACCES),
                                            ::testing::ValuesIn(testing::run_scenarios())),
                         [](const auto& of) {
                           return std::get<1>(of.param).name +
                                  std::to_string(std::get<0>(of.param));
                         });

TEST_P(RunScenarioFault, NoStepIsLostAndSomebodyIsTold) {
  const auto& [error, scenario] = GetParam();
  const testing::PreparedRun prepared(scenario);
  // The other errors take too much time at every call.
  const int stride = error == ENOSPC ? testing::kKillStep : std::max(6, testing::kKillStep);
  int told = 0;
  bool is_injected = true;
  for (int n = error % stride; is_injected && !HasFailure(); n += stride) {
    const TempDir dir = TempDir::in_memory();
    const std::string root = dir / "run";
    prepared.copy_to(root);
    const Faulted result = run_and_fail_at(n, error, [&] { std::get<1>(GetParam()).work(root); });
    SCOPED_TRACE(std::to_string(n) + ": " + result.call);
    ASSERT_TRUE(result.ended);
    told += result.error ? 1 : 0;
    scenario.check(root, !result.error);
    if (n % 8 == 0 || stride > 1) testing::check_next_manager(scenario, root);
    is_injected = result.injected;
  }
  EXPECT_TRUE(told > 0 || testing::kKillStep > 1);
}

}  // namespace
}  // namespace cairn::orbax
