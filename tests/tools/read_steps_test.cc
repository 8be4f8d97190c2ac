// read_steps_test.cc -- the steps of a directory in which a training job goes on.
#include <cairn/checkpoint_manager.h>
#include <cairn/orbax/open.h>
#include <cairn/steps.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using cairn::testing::TempDir;
using ::testing::HasSubstr;

// Steps appear and disappear while they are read. None of this is an error.
TEST(ReadSteps, WhileAManagerSavesAndRemoves) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager(dir / "run").save(0, PyTreeSaveArgs{Tree{{"x", 0}}});
  std::atomic<bool> ended = false;
  std::jthread job([&] {
    CheckpointManager manager(dir / "run", {.max_to_keep = 2});
    for (std::int64_t step = 1; step <= 200; ++step)
      manager.save(step, PyTreeSaveArgs{Tree{{"x", step}}});
    manager.close();
    ended = true;
  });
  std::size_t complete = 0;
  while (!ended)
    for (const StepRecord& record : read_steps(dir / "run")) {
      complete += record.complete ? 1 : 0;
    }
  job.join();
  EXPECT_GT(complete, 0U);
  for (const StepRecord& record : read_steps(dir / "run")) {
    EXPECT_TRUE(record.complete) << record.reason;
    EXPECT_GT(record.unique_nbytes, 0U);
  }
}

// The folders of one checkpoint may have names like steps. Pruning them would lose its data.
TEST(ReadSteps, FoldersOfOneCheckpointAreNotSteps) {
  const TempDir dir = TempDir::in_memory();
  const Tree tree{{"x", 1}};
  save_orbax(dir / "c", tree, {.item = "params_1"});
  for (const char* item : {"c/params_2", "c/params_3"})
    std::filesystem::copy(dir / "c/params_1", dir / item, std::filesystem::copy_options::recursive);
  save_orbax(dir / "d", tree);
  for (const char* process : {"d/ocdbt.process_0", "d/ocdbt.process_1"}) {
    std::filesystem::create_directory(dir / process);
    std::filesystem::copy(dir / "d/manifest.ocdbt",
                          dir / (std::string(process) + "/manifest.ocdbt"));
  }
  for (const char* name : {"c", "d"}) {
    EXPECT_THROW((void)read_steps(dir / name), Error) << name;
    EXPECT_THROW((void)prune_steps(dir / name, {.keep_last = 1}), Error) << name;
  }
  for (const char* name : {"c/params_1", "c/params_2", "d/ocdbt.process_0", "d/ocdbt.process_1"})
    EXPECT_TRUE(std::filesystem::exists(dir / name)) << name;
}

// Orbax's manager counts a step that a symbolic link leads to, and cannot remove it.
TEST(ReadSteps, ThatAreSymbolicLinks) {
  const TempDir dir = TempDir::in_memory();
  {
    CheckpointManager manager(dir / "run");
    for (std::int64_t step = 1; step <= 3; ++step)
      manager.save(step, PyTreeSaveArgs{Tree{{"x", step}}});
  }
  std::filesystem::rename(dir / "run/1", dir / "elsewhere");
  std::filesystem::create_directory_symlink(dir / "elsewhere", dir / "run/1");
  std::filesystem::create_directory_symlink(dir / "nowhere", dir / "run/5");
  std::filesystem::create_directory_symlink(dir / "run/6", dir / "run/6");
  const std::vector<StepRecord> steps = read_steps(dir / "run");
  ASSERT_EQ(steps.size(), 5U);
  EXPECT_TRUE(steps[0].complete) << steps[0].reason;
  EXPECT_GT(steps[0].nbytes, 0U);
  EXPECT_EQ(steps[0].unique_nbytes, 0U);
  EXPECT_GT(steps[1].unique_nbytes, 0U);
  EXPECT_FALSE(steps[3].complete);
  EXPECT_THAT(steps[3].reason, HasSubstr("No such file"));
  EXPECT_FALSE(steps[4].complete);
  EXPECT_THAT(steps[4].reason, HasSubstr("symbolic links"));

  const std::vector<PrunedStep> pruned = prune_steps(dir / "run", {.keep_last = 1});
  ASSERT_EQ(pruned.size(), 5U);
  EXPECT_EQ(pruned[0].outcome, PruneOutcome::kRefused);
  EXPECT_THAT(pruned[0].why, HasSubstr("is a symbolic link"));
  EXPECT_EQ(pruned[1].outcome, PruneOutcome::kRemoved);
  EXPECT_EQ(pruned[2].outcome, PruneOutcome::kKept);
  EXPECT_TRUE(std::filesystem::exists(dir / "elsewhere/_CHECKPOINT_METADATA"));
}

}  // namespace
}  // namespace cairn
