// read_steps_test.cc -- the steps of a directory in which a training job goes on.
#include <cairn/checkpoint_manager.h>
#include <cairn/steps.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using cairn::testing::TempDir;

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

}  // namespace
}  // namespace cairn
