// manager_crash_test.cc -- a manager is killed at every system call that changes files, while it
// saves a step, removes an older one and removes another one on request (and in the scenarios of
// run_scenarios.h): the newest committed step restores, no step that was to be kept is lost, and
// the next manager goes on.
#include <cairn/checkpoint_manager.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/orbax/layout/layout.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/orbax/manager/run_scenarios.h"
#include "tests/orbax/manager/small_steps.h"
#include "tests/support/kill_at.h"
#include "tests/support/matchers.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::Ended;
using cairn::testing::run_and_kill_at;
using cairn::testing::save_step;
using cairn::testing::TempDir;
using cairn::testing::three_steps;
using ::testing::Contains;
using ::testing::ElementsAre;

class CheckpointManagerCrash : public ::testing::TestWithParam<CommitProtocol> {};
INSTANTIATE_TEST_SUITE_P(Protocols, CheckpointManagerCrash,
                         ::testing::Values(CommitProtocol::kAtomicRename,
                                           CommitProtocol::kCommitMarker),
                         testing::protocol_name);

TEST_P(CheckpointManagerCrash, NoStepIsHalfThere) {
  const bool in_place = GetParam() == CommitProtocol::kCommitMarker;
  Ended ended = Ended::kKilled;
  bool saw_old = false;
  bool saw_no_marker = false;
  for (int n = 0; ended == Ended::kKilled; n += testing::kKillStep) {
    const TempDir dir = TempDir::in_memory();
    const std::string root = dir / "run";
    {
      CheckpointManager manager(root, three_steps(GetParam()));
      for (const std::int64_t step : {1, 2, 3}) save_step(manager, step);
    }
    ended = run_and_kill_at(n, [&] {
      CheckpointManager manager(root, three_steps(GetParam()));
      save_step(manager, 4);  // removes step 1
      manager.remove(2);
    });
    ASSERT_NE(ended, Ended::kBadly) << n;
    CheckpointManager manager(root, three_steps(GetParam()));
    const auto steps = manager.all_steps();
    saw_old = saw_old || steps.front() == 1;
    ASSERT_THAT(steps, Contains(3)) << n;
    if (steps.back() == 3) {
      ASSERT_THAT(steps, ElementsAre(1, 2, 3)) << n;
    }
    for (const std::int64_t step : steps)
      ASSERT_EQ(std::get<std::int64_t>(manager.restore(step).at("x").value()), step) << n;
    // Killed between the last two files: the step is whole, and lacks its marker.
    const bool lacks_marker = in_place && steps.back() == 3 && load(root) == (Tree{{"x", 4}});
    if (!lacks_marker) {
      ASSERT_EQ(load(root), (Tree{{"x", steps.back()}})) << n;
    }
    saw_no_marker = saw_no_marker || lacks_marker;
    if (n % 2 == 0) {
      clean_leftovers(root);
      for (const std::string& name : list_directory(root).folders)
        ASSERT_TRUE(parse_step_name(name)) << n << " left " << name;
      manager.reload();
    }
    save_step(manager, 5);
    save_step(manager, 6);
    save_step(manager, 7);
    ASSERT_THAT(manager.all_steps(), ElementsAre(5, 6, 7)) << n;
    if (n % 2 != 0) continue;
    std::size_t complete = 0;
    for (const std::string& name : list_directory(root).folders) {
      const Listing step = list_directory(join(root, name));
      complete += step.has_file(kCommitFile) ? 1 : 0;
      if (step.has_file(kCommitFile)) continue;
      // Nothing is written in it yet, or any more; or it is whole and lacks its marker.
      const bool is_empty = step.files.empty() && step.folders.empty();
      ASSERT_TRUE(in_place) << n << " left " << name;
      ASSERT_TRUE(is_empty || load(join(root, name)) == (Tree{{"x", *parse_step(name)}})) << n;
    }
    ASSERT_EQ(complete, 3U) << n;
  }
  EXPECT_TRUE(saw_old);
  // Sanitized builds do not take every call.
  EXPECT_TRUE(saw_no_marker || !in_place || testing::kKillStep > 1);
}

class RunScenarioCrash : public ::testing::TestWithParam<testing::RunScenario> {};
INSTANTIATE_TEST_SUITE_P(Scenarios, RunScenarioCrash, ::testing::ValuesIn(testing::run_scenarios()),
                         [](const auto& of) { return of.param.name; });

TEST_P(RunScenarioCrash, NoStepIsLost) {
  const testing::PreparedRun prepared(GetParam());
  Ended ended = Ended::kKilled;
  for (int n = 0; ended == Ended::kKilled && !HasFailure(); n += testing::kKillStep) {
    SCOPED_TRACE(n);
    const TempDir dir = TempDir::in_memory();
    const std::string root = dir / "run";
    prepared.copy_to(root);
    ended = run_and_kill_at(n, [&] { GetParam().work(root); });
    ASSERT_NE(ended, Ended::kBadly);
    GetParam().check(root, ended == Ended::kWell);
    if (n % 8 == 0) testing::check_next_manager(GetParam(), root);
  }
}

}  // namespace
}  // namespace cairn::orbax
