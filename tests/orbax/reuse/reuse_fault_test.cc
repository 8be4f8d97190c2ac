// reuse_fault_test.cc -- every system call that changes files fails in turn, and a kill comes at every
// one, while a step is saved that shares files with the one before: the steps before stay as they
// are, the new one is whole or absent, and a link that the system refuses is no error.
#include <cairn/checkpoint_manager.h>
#include <cairn/inspect.h>
#include <cairn/open.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/orbax/reuse/reuse_support.h"
#include "tests/support/fail_at.h"
#include "tests/support/kill_at.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::Ended;
using cairn::testing::Faulted;
using cairn::testing::noise;
using cairn::testing::run_and_fail_at;
using cairn::testing::run_and_kill_at;
using cairn::testing::TempDir;

CheckpointManagerOptions options(bool ocdbt) {
  CheckpointManagerOptions options{.max_to_keep = 2, .enable_async_checkpointing = false};
  options.handler.reuse = Reuse::kUnchanged;
  options.handler.use_ocdbt = ocdbt;
  options.handler.resources.threads = 1;
  return options;
}

// Two arrays that stay, and one that does not.
Tree tree_of(std::int64_t step) {
  return Tree{{"a", noise(2000, 1)},
              {"b", noise(2000, 2)},
              {"x", noise(500, static_cast<std::uint64_t>(step) + 10)}};
}

void save(CheckpointManager& manager, std::int64_t step) {
  manager.save(step, PyTreeSaveArgs{tree_of(step)});
}

// Every step that is there is whole. Returns the last one.
std::int64_t check_steps(const std::string& root, bool ocdbt) {
  CheckpointManager manager(root, options(ocdbt));
  for (const std::int64_t step : manager.all_steps()) {
    EXPECT_EQ(manager.restore(step), tree_of(step));
    EXPECT_FALSE(verify(root + "/" + std::to_string(step)).damaged());
  }
  return manager.latest_step().value_or(-1);
}

class ReuseFault : public ::testing::TestWithParam<std::tuple<bool, int>> {};

TEST_P(ReuseFault, TheStepsBeforeAreKept) {
  const auto [ocdbt, error] = GetParam();
  int links = 0;
  for (int n = 0;; n += testing::kKillStep) {
    const TempDir dir = TempDir::in_memory();
    const std::string root = dir / "run";
    {
      CheckpointManager manager(root, options(ocdbt));
      save(manager, 1);
      save(manager, 2);
    }
    const Faulted result = run_and_fail_at(n, error, [&, o = ocdbt] {
      CheckpointManager manager(root, options(o));
      save(manager, 3);
    });
    SCOPED_TRACE(std::to_string(n) + ": " + result.call);
    ASSERT_TRUE(result.ended);
    const std::int64_t last = check_steps(root, ocdbt);
    ASSERT_TRUE(last == 3 || (last == 2 && result.error));
    if (result.call.starts_with("link")) {
      ++links;
      ASSERT_FALSE(result.error);
    }
    {
      CheckpointManager manager(root, options(ocdbt));
      save(manager, 4);
    }
    ASSERT_EQ(check_steps(root, ocdbt), 4);
    if (!result.injected) break;
  }
  if (testing::kKillStep == 1) {
    EXPECT_GE(links, ocdbt ? 1 : 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, ReuseFault,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(ENOSPC, EXDEV)));

class ReuseCrash : public ::testing::TestWithParam<bool> {};

TEST_P(ReuseCrash, NoStepIsHalfThere) {
  Ended ended = Ended::kKilled;
  for (int n = 0; ended == Ended::kKilled; n += testing::kKillStep) {
    const TempDir dir = TempDir::in_memory();
    const std::string root = dir / "run";
    {
      CheckpointManager manager(root, options(GetParam()));
      save(manager, 1);
      save(manager, 2);
    }
    ended = run_and_kill_at(n, [&] {
      CheckpointManager manager(root, options(GetParam()));
      save(manager, 3);  // removes step 1
    });
    ASSERT_NE(ended, Ended::kBadly) << n;
    ASSERT_GE(check_steps(root, GetParam()), 2) << n;
    {
      CheckpointManager manager(root, options(GetParam()));
      save(manager, 4);
      save(manager, 5);
    }
    ASSERT_EQ(check_steps(root, GetParam()), 5) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReuseCrash, ::testing::Bool());

}  // namespace
}  // namespace cairn::orbax
