// manager_processes_test.cc -- managers of several processes, which are threads here, save the
// steps of one directory together.
#include <cairn/checkpoint_manager.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>

#include "tests/orbax/manager/small_steps.h"
#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::put_file;
using cairn::testing::TempDir;
using cairn::testing::tree_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 3;

// Runs the work in all processes. Returns the error of each.
std::vector<std::optional<Error>> run_all(
    const std::function<void(std::size_t, CheckpointManagerOptions)>& work) {
  return testing::run_as_processes(kCount, [&](const std::shared_ptr<Coordinator>& coordinator) {
    CheckpointManagerOptions options;
    options.handler.resources.threads = 1;
    options.handler.multiprocessing_options.coordinator = coordinator;
    options.handler.multiprocessing_options.timeout = std::chrono::seconds(20);
    options.handler.multiprocessing_options.write_timeout = std::chrono::seconds(20);
    work(coordinator->process_index(), options);
  });
}

void expect_no_errors(const std::vector<std::optional<Error>>& errors) {
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
}

// covers: manager.CheckpointManager
TEST(ManagerProcesses, SaveKeepAndRestoreTogether) {
  const TempDir dir = TempDir::in_memory();
  expect_no_errors(run_all([&](std::size_t, CheckpointManagerOptions options) {
    options.max_to_keep = 2;
    options.root_metadata = R"({"run": 1})";
    CheckpointManager manager(dir / "run", options);
    for (std::int64_t step = 0; step < 5; ++step)
      ASSERT_TRUE(manager.save(step, CheckpointItems{{"default", PyTreeSaveArgs{tree_of(step)}},
                                                     {"config", JsonItem{"{}"}}}));
    ASSERT_FALSE(manager.save(2, PyTreeSaveArgs{tree_of(2)}));
    manager.wait_until_finished();
    ASSERT_THAT(manager.all_steps(), ElementsAre(3, 4));
    ASSERT_EQ(manager.restore(), tree_of(4));
    ASSERT_EQ(manager.restore_json(4, "config"), "{}");
    ASSERT_EQ(manager.root_metadata(), R"({"run": 1})");
    manager.remove(3);
    ASSERT_THAT(manager.all_steps(), ElementsAre(4));
    manager.close();
  }));
  EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("4", "metadata"));
}

TEST(ManagerProcesses, StepsAreRemovedInTheBackground) {
  const TempDir dir = TempDir::in_memory();
  expect_no_errors(run_all([&](std::size_t, CheckpointManagerOptions options) {
    options.max_to_keep = 2;
    options.enable_background_delete = true;
    CheckpointManager manager(dir / "run", options);
    for (std::int64_t step = 0; step < 5; ++step) {
      ASSERT_TRUE(manager.save(step, PyTreeSaveArgs{tree_of(step)}));
      if (step == 2) manager.remove(1);
    }
    manager.close();
    ASSERT_THAT(manager.all_steps(), ElementsAre(3, 4));
  }));
  EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("3", "4"));
}

// A signal may reach one of the processes only.
// covers: manager.CheckpointManager.save
// note: If one of several processes is preempted, all of them save the step.
TEST(ManagerProcesses, OneThatIsToEndMakesAllSave) {
  const TempDir dir = TempDir::in_memory();
  expect_no_errors(run_all([&](std::size_t process, CheckpointManagerOptions options) {
    options.save_interval_steps = 100;
    options.is_preempted = [&](std::int64_t step) { return process == 2 && step == 7; };
    CheckpointManager manager(dir / "run", options);
    for (std::int64_t step = 0; step < 9; ++step)
      ASSERT_EQ(manager.save(step, PyTreeSaveArgs{tree_of(step)}), step == 0 || step == 7);
    manager.close();
  }));
}

// The others learn of it, so that none trains on alone and waits for the one that has ended.
TEST(ManagerProcesses, OneThatIsToEndMakesAllEnd) {
  const TempDir dir = TempDir::in_memory();
  expect_no_errors(run_all([&](std::size_t process, CheckpointManagerOptions options) {
    options.save_interval_steps = 100;
    options.is_preempted = [&](std::int64_t step) { return process == 2 && step >= 7; };
    CheckpointManager manager(dir / "run", options);
    std::int64_t step = 0;
    for (; step < 50; ++step) {
      manager.save(step, PyTreeSaveArgs{tree_of(step)});
      if (manager.reached_preemption()) break;
    }
    manager.close();
    ASSERT_EQ(step, 7);
    ASSERT_THAT(manager.all_steps(), ElementsAre(0, 7));
  }));
}

// The processes' clocks differ, so the decisions of all but the primary do not count.
TEST(ManagerProcesses, ThePrimaryDecidesWhatIsKept) {
  const TempDir dir = TempDir::in_memory();
  expect_no_errors(run_all([&](std::size_t process, CheckpointManagerOptions options) {
    options.keep_policy = process == 0 ? keep_policy::latest(1) : keep_policy::latest(0);
    CheckpointManager manager(dir / "run", options);
    for (std::int64_t step = 0; step < 3; ++step) manager.save(step, PyTreeSaveArgs{tree_of(step)});
    manager.close();
    ASSERT_THAT(manager.all_steps(), ElementsAre(2));
  }));
  EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("2"));
}

TEST(ManagerProcesses, AnErrorOfOneReachesAll) {
  const TempDir dir = TempDir::in_memory();
  const auto errors = run_all([&](std::size_t process, CheckpointManagerOptions options) {
    CheckpointManager manager(dir / "run", options);
    manager.save(1, PyTreeSaveArgs{tree_of(1)});
    CheckpointItems items{{"config", JsonItem{process == 1 ? "{" : "{}"}}};
    manager.save(2, items);
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message(), HasSubstr("the item 'config'"));
  }
}

TEST(ManagerProcesses, AnErrorOfAPolicyReachesAll) {
  const TempDir dir = TempDir::in_memory();
  const auto errors = run_all([&](std::size_t process, CheckpointManagerOptions options) {
    options.save_policy = [&](const SaveQuestion&) -> bool {
      if (process == 1) throw Error(Code::kUnavailable, "the clock has stopped");
      return true;
    };
    CheckpointManager manager(dir / "run", options);
    manager.save(1, PyTreeSaveArgs{tree_of(1)});
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message(), HasSubstr("the clock has stopped"));
  }
}

TEST(ManagerProcesses, AStepThatCannotBeRemovedIsToldToAll) {
  const TempDir dir = TempDir::in_memory();
  const auto errors = run_all([&](std::size_t process, CheckpointManagerOptions options) {
    options.max_to_keep = 1;
    CheckpointManager manager(dir / "run", options);
    manager.save(1, PyTreeSaveArgs{tree_of(1)});
    manager.wait_until_finished();
    if (process == 0) put_file(dir / "run/1/notes.txt", "mine");
    manager.save(2, PyTreeSaveArgs{tree_of(2)});
    ASSERT_THAT([&] { manager.wait_until_finished(); },
                FailsWith(Code::kAlreadyExists, "step 2 is saved"));
    ASSERT_THAT(manager.all_steps(), ElementsAre(1, 2));
    manager.close();
  });
  expect_no_errors(errors);
  EXPECT_TRUE(file_exists(dir / "run/1/notes.txt"));
}

TEST(ManagerProcesses, DifferentStepsAreRefused) {
  const TempDir dir = TempDir::in_memory();
  const auto errors = run_all([&](std::size_t process, CheckpointManagerOptions options) {
    CheckpointManager manager(dir / "run", options);
    manager.save(static_cast<std::int64_t>(process), PyTreeSaveArgs{tree_of(1)});
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kInvalidArgument);
    EXPECT_THAT(error->message(), HasSubstr("the same step"));
  }
}

// Each process has a directory of its own, on a disk that the others do not see.
TEST(ManagerProcesses, EachOnADiskOfItsOwn) {
  const TempDir dir = TempDir::in_memory();
  expect_no_errors(run_all([&](std::size_t process, CheckpointManagerOptions options) {
    options.handler.multiprocessing_options.primary_host.reset();
    options.max_to_keep = 1;
    const std::string root = dir / std::to_string(process);
    CheckpointManager manager(root, options);
    for (std::int64_t step = 0; step < 3; ++step) manager.save(step, PyTreeSaveArgs{tree_of(step)});
    manager.close();
    ASSERT_THAT(list_directory(root).folders, ElementsAre("2"));
  }));
}

}  // namespace
}  // namespace cairn::orbax
