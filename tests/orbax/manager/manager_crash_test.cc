// manager_crash_test.cc -- a manager is killed at every system call that changes files, while it
// saves a step, removes an older one and removes another one on request: the newest committed step
// restores, no step that was to be kept is lost, and the next manager goes on.
#include <cairn/checkpoint_manager.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/orbax/layout/layout.h>
#include <gtest/gtest.h>

#include <algorithm>

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

TEST(CheckpointManagerCrash, NoStepIsHalfThere) {
  Ended ended = Ended::kKilled;
  bool saw_old = false;
  for (int n = 0; ended == Ended::kKilled; n += testing::kKillStep) {
    const TempDir dir = TempDir::in_memory();
    const std::string root = dir / "run";
    {
      CheckpointManager manager(root, three_steps());
      for (const std::int64_t step : {1, 2, 3}) save_step(manager, step);
    }
    ended = run_and_kill_at(n, [&] {
      CheckpointManager manager(root, three_steps());
      save_step(manager, 4);  // removes step 1
      manager.remove(2);
    });
    ASSERT_NE(ended, Ended::kBadly) << n;
    CheckpointManager manager(root, three_steps());
    const auto steps = manager.all_steps();
    saw_old = saw_old || steps.front() == 1;
    ASSERT_THAT(steps, Contains(3)) << n;
    if (steps.back() == 3) {
      ASSERT_THAT(steps, ElementsAre(1, 2, 3)) << n;
    }
    for (const std::int64_t step : steps)
      ASSERT_EQ(std::get<std::int64_t>(manager.restore(step).at("x").value()), step) << n;
    ASSERT_EQ(load(root), (Tree{{"x", steps.back()}})) << n;
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
    if (n % 2 == 0) {
      ASSERT_EQ(list_directory(root).folders.size(), 3U) << n;
    }
  }
  EXPECT_TRUE(saw_old);
}

}  // namespace
}  // namespace cairn::orbax
