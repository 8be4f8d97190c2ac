// What the comparison with the real CheckpointManager (tests/interop/orbax/test_manager.py) cannot
// see: names, refused options, errors of saves in the background, and what is never removed.
#include <cairn/checkpoint_manager.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/save_lock.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/orbax/layout/layout.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <limits>

#include "tests/orbax/manager/small_steps.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::put_file;
using cairn::testing::TempDir;
using cairn::testing::tree_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::int64_t x_of(const Tree& tree) { return std::get<std::int64_t>(tree.at("x").value()); }

void save_with_loss(CheckpointManager& manager, std::int64_t step, double loss) {
  manager.save(step, PyTreeSaveArgs{tree_of(step)}, {.metrics = Metrics{{"loss", loss}}});
  manager.wait_until_finished();
}

TEST(StepName, PrefixAndDigits) {
  EXPECT_EQ(step_name(12), "12");
  EXPECT_EQ(step_name(12, StepNameFormat("", 4)), "0012");
  EXPECT_EQ(step_name(123456, StepNameFormat("", 4)), "123456");
  EXPECT_EQ(step_name(0, StepNameFormat("step", 8)), "step_00000000");
  EXPECT_THAT([] { (void)step_name(-1); }, FailsWith(Code::kInvalidArgument, "-1 is negative"));
  EXPECT_THAT([] { (void)step_name(1, StepNameFormat("a/b")); },
              FailsWith(Code::kInvalidArgument, "a/b"));
  EXPECT_THAT([] { (void)step_name(1, StepNameFormat("a.orbax-checkpoint-tmp")); },
              FailsWith(Code::kInvalidArgument, "a.orbax-checkpoint-tmp"));
}

TEST(StepName, OnlyTheNameOfAStepIsParsed) {
  for (const char* name : {"007", "", "1a", "-1", "1.orbax-checkpoint-tmp", "step_1",
                           "99999999999999999999", "+1", " 1"})
    EXPECT_EQ(parse_step_name(name), std::nullopt) << name;
  EXPECT_EQ(parse_step_name("0"), 0);
  const StepNameFormat format("step", 3);
  EXPECT_EQ(parse_step_name("step_007", format), 7);
  EXPECT_EQ(parse_step_name("step_1234", format), 1234);
  for (const char* name : {"step_07", "step_0123", "007", "step007", "step_"})
    EXPECT_EQ(parse_step_name(name, format), std::nullopt) << name;
}

TEST(CheckpointManager, ItemsAreRestoredByName) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run", {.best_fn = metric("loss")});
  EXPECT_TRUE(manager.save(
      3,
      {{"params", PyTreeSaveArgs{tree_of(1)}},
       {"ema", PyTreeSaveArgs{tree_of(2)}},
       {"config", JsonItem{R"({"layers": 12})"}}},
      {.metrics = Metrics{{"loss", 0.5}, {"accuracy", 0.75}}, .custom_metadata = R"({"run": 7})"}));
  EXPECT_EQ(x_of(manager.restore({}, {}, "params")), 1);
  EXPECT_EQ(x_of(manager.restore(3, {}, "ema")), 2);
  EXPECT_EQ(manager.restore_json(3, "config"), R"({"layers": 12})");
  EXPECT_EQ(manager.metrics(3), (Metrics{{"accuracy", 0.75}, {"loss", 0.5}}));
  EXPECT_THAT([&] { (void)manager.restore(3); }, FailsWith(Code::kNotFound, "default"));
  EXPECT_THAT([&] { (void)manager.restore(4); }, FailsWith(Code::kNotFound, "/4"));
  EXPECT_THAT([&] { (void)manager.restore_json(3, "no"); }, FailsWith(Code::kNotFound, "/no"));
  EXPECT_EQ(manager.metrics(4), std::nullopt);
}

TEST(CheckpointManager, WhatCannotBeSavedLeavesNothing) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run");
  const PyTreeSaveArgs tree{tree_of(1)};
  const auto save = [&](CheckpointItems items, std::string metadata = "") {
    return [&manager, items = std::move(items), metadata = std::move(metadata)] {
      (void)manager.save(1, items, {.custom_metadata = metadata});
    };
  };
  EXPECT_THAT(save({{"metrics", tree}}), FailsWith(Code::kInvalidArgument, "reserved"));
  EXPECT_THAT(save({{"a", tree}, {"a", tree}}), FailsWith(Code::kInvalidArgument, "'a'"));
  EXPECT_THAT(save({{"../a", tree}}), FailsWith(Code::kInvalidArgument, "../a"));
  EXPECT_THAT(save({{"a", JsonItem{"{"}}}), FailsWith(Code::kDataLoss, "the item 'a'"));
  EXPECT_THAT(save({{"a", tree}}, "[]"), FailsWith(Code::kInvalidArgument, "metadata"));
  EXPECT_THAT(manager.all_steps(), IsEmpty());
  EXPECT_THAT(list_directory(dir / "run").folders, IsEmpty());
}

TEST(CheckpointManager, OptionsThatExcludeEachOther) {
  const TempDir dir = TempDir::in_memory();
  const auto refuses = [&](CheckpointManagerOptions options, const char* why) {
    EXPECT_THAT([&] { CheckpointManager(dir / "run", options); },
                FailsWith(Code::kInvalidArgument, why));
  };
  refuses({.max_to_keep = 1, .keep_policy = keep_policy::all()}, "keep_policy");
  refuses({.save_interval_steps = 0}, "save_interval_steps is 0");
  refuses({.max_to_keep = 1, .keep_period = 0}, "interval of 0");
  refuses({.step_name_format = StepNameFormat("a/b")}, "a/b");
  refuses({.todelete_subdir = "../x"}, "../x");
  refuses({.todelete_subdir = "17"}, "'17'");
  refuses({.todelete_subdir = "metadata"}, "'metadata'");
  refuses({.todelete_subdir = "a.orbax-checkpoint-tmp"}, "unfinished");
  refuses({.root_metadata = "3"}, "root metadata");
  EXPECT_THAT([&] { CheckpointManager(dir / "no", {.create = false}); },
              FailsWith(Code::kNotFound, "/no"));
  EXPECT_THAT([&] { CheckpointManager(dir / "no", {.read_only = true}); },
              FailsWith(Code::kNotFound, "/no"));
  put_file(dir / "file", "x");
  EXPECT_THAT([&] { CheckpointManager(dir / "file"); },
              FailsWith(Code::kInvalidArgument, "is a file"));
}

// The manager looks for its directory by its path, as Orbax's. What is elsewhere stays as it is.
TEST(CheckpointManager, ADirectoryThatIsRemovedOrReplacedMeanwhile) {
  for (const bool is_moved : {false, true})
    for (const bool in_place : {false, true}) {
      const TempDir dir = TempDir::in_memory();
      CheckpointManagerOptions options{.max_to_keep = 2, .root_metadata = "{}"};
      if (in_place) options.handler.commit_protocol = CommitProtocol::kCommitMarker;
      CheckpointManager manager(dir / "run", options);
      manager.save(1, PyTreeSaveArgs{tree_of(1)});
      manager.wait_until_finished();
      std::filesystem::rename(dir / "run", dir / "elsewhere");
      if (is_moved) std::filesystem::create_directory(dir / "run");
      EXPECT_THAT([&] { (void)manager.restore(1); }, FailsWith(Code::kNotFound, "/1"));
      EXPECT_EQ(manager.root_metadata(), "");
      for (const std::int64_t step : {2, 3, 4}) manager.save(step, PyTreeSaveArgs{tree_of(step)});
      manager.wait_until_finished();
      EXPECT_THAT(manager.all_steps(), ElementsAre(3, 4));
      manager.reload();
      EXPECT_THAT(manager.all_steps(), ElementsAre(3, 4));
      EXPECT_EQ(x_of(manager.restore()), 4);
      EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("3", "4"));
      EXPECT_THAT(list_directory(dir / "elsewhere").folders, ElementsAre("1", "metadata"));
      std::filesystem::remove_all(dir / "run");
      manager.remove(3);
      manager.reload();
      EXPECT_THAT(manager.all_steps(), IsEmpty());
      EXPECT_THAT([&] { (void)manager.restore(); }, FailsWith(Code::kNotFound, "no steps"));
    }
}

// covers: manager.CheckpointManager.save, manager.CheckpointManagerOptions
TEST(CheckpointManager, AReadOnlyManagerChangesNothing) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager(dir / "run").save(1, PyTreeSaveArgs{tree_of(1)});
  CheckpointManager manager(
      dir / "run", {.max_to_keep = 0, .keep_policy = keep_policy::latest(0), .read_only = true});
  EXPECT_FALSE(manager.save(2, PyTreeSaveArgs{tree_of(2)}));
  EXPECT_THAT([&] { (void)manager.save(2, PyTreeSaveArgs{tree_of(2)}, {.force = true}); },
              FailsWith(Code::kFailedPrecondition, "read-only"));
  manager.remove(1);
  EXPECT_EQ(x_of(manager.restore()), 1);
}

// Makes the saves of chosen steps fail after save() has returned: a file takes the step's name when
// the caller's part of the save ends.
class Obstacle {
 public:
  explicit Obstacle(std::string root) : root_(std::move(root)) {}
  [[nodiscard]] CheckpointManagerOptions in(CheckpointManagerOptions options) {
    options.handler.observer = [this](const Event& event) {
      if (event.name == "save.blocked" && obstructs_) put_file(root_, "not a step");
      if (event.name == "save.failed") ++failures;
    };
    return options;
  }
  void put_at(const std::string& path) {
    root_ = path;
    obstructs_ = true;
  }
  void stop() { obstructs_ = false; }

  std::atomic<int> failures = 0;

 private:
  std::string root_;
  bool obstructs_ = false;
};

// covers: manager.CheckpointManagerOptions.enable_async_checkpointing
// note: An error of a save in the background is thrown once.
TEST(CheckpointManager, AnErrorInTheBackgroundIsToldOnce) {
  const TempDir dir = TempDir::in_memory();
  Obstacle obstacle(dir / "run");
  CheckpointManager manager(dir / "run", obstacle.in({.max_to_keep = 1}));
  manager.save(1, PyTreeSaveArgs{tree_of(1)});
  manager.wait_until_finished();
  obstacle.put_at(dir / "run/2");
  EXPECT_TRUE(manager.save(2, PyTreeSaveArgs{tree_of(2)}));
  EXPECT_THAT([&] { manager.wait_until_finished(); },
              FailsWith(Code::kAlreadyExists, "run/2: is a file"));
  obstacle.stop();
  manager.check_for_errors();
  EXPECT_EQ(obstacle.failures, 1);
  EXPECT_THAT(manager.all_steps(), ElementsAre(1));
  EXPECT_EQ(x_of(manager.restore()), 1);
  EXPECT_TRUE(manager.save(3, PyTreeSaveArgs{tree_of(3)}));
  manager.wait_until_finished();
  EXPECT_THAT(manager.all_steps(), ElementsAre(3));
  EXPECT_EQ(as_text(read_file(dir / "run/2")), "not a step");
}

// Every fourth save fails in the background. No error is lost, and nothing is left behind.
TEST(CheckpointManager, AThousandSavesOfWhichSomeFail) {
  const TempDir dir = TempDir::in_memory();
  Obstacle obstacle(dir / "run");
  CheckpointManager manager(dir / "run", obstacle.in({.max_to_keep = 2}));
  int told = 0;
  for (std::int64_t step = 1; step <= 1000; ++step) {
    const bool fails = step % 4 == 0;
    // The next call of the manager tells the error; then the step is saved.
    bool done = false;
    while (!done) try {
        manager.wait_until_finished();
        obstacle.stop();
        if (fails) obstacle.put_at(dir / ("run/" + std::to_string(step)));
        done = manager.save(step, PyTreeSaveArgs{tree_of(step)});
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::kAlreadyExists) << e.message();
        ++told;
      }
  }
  EXPECT_THAT([&] { manager.close(); }, FailsWith(Code::kAlreadyExists, "run/1000"));
  EXPECT_EQ(told, 249);
  EXPECT_EQ(obstacle.failures, 250);
  EXPECT_THAT(manager.all_steps(), ElementsAre(998, 999));
  EXPECT_EQ(x_of(manager.restore()), 999);
  const Listing left = list_directory(dir / "run");
  EXPECT_THAT(left.folders, ElementsAre("998", "999"));
  EXPECT_EQ(left.files.size(), 250U);
}

// An old step to which somebody has added a file stays; the new one is saved, and the error says
// so.
// covers: manager.CheckpointManager.delete
// note: C++ calls it `remove`. A folder that holds anything besides a checkpoint is not removed.
TEST(CheckpointManager, AStepWithForeignFilesIsNotRemoved) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run", {.max_to_keep = 1});
  manager.save(1, PyTreeSaveArgs{tree_of(1)});
  manager.wait_until_finished();
  put_file(dir / "run/1/notes.txt", "mine");
  manager.save(2, PyTreeSaveArgs{tree_of(2)});
  EXPECT_THAT([&] { manager.wait_until_finished(); },
              FailsWith(Code::kAlreadyExists, "step 2 is saved"));
  EXPECT_THAT(manager.all_steps(), ElementsAre(1, 2));
  EXPECT_EQ(as_text(read_file(dir / "run/1/notes.txt")), "mine");
  EXPECT_EQ(x_of(manager.restore(1)), 1);
  EXPECT_EQ(x_of(manager.restore(2)), 2);
  EXPECT_THAT([&] { manager.remove(1); }, FailsWith(Code::kAlreadyExists, "notes.txt"));
}

// A folder that somebody named like a step does not count, and is never removed or replaced.
TEST(CheckpointManager, AFolderThatIsNoStepIsNotRemoved) {
  const TempDir dir = TempDir::in_memory();
  make_directories(dir / "run/1");
  put_file(dir / "run/1/photo.jpg", "mine");
  CheckpointManager manager(dir / "run", {.max_to_keep = 1});
  EXPECT_THAT(manager.all_steps(), IsEmpty());
  ASSERT_EQ(manager.incomplete_steps().size(), 1U);
  EXPECT_EQ(manager.incomplete_steps()[0].reason, "the folder holds no checkpoint");
  EXPECT_THAT([&] { manager.save(1, PyTreeSaveArgs{tree_of(1)}); },
              FailsWith(Code::kAlreadyExists, "run/1"));
  manager.save(2, PyTreeSaveArgs{tree_of(2)});
  manager.wait_until_finished();
  EXPECT_THAT(manager.all_steps(), ElementsAre(2));
  EXPECT_TRUE(file_exists(dir / "run/1/photo.jpg"));
}

// covers: manager.CheckpointManagerOptions.todelete_subdir
TEST(CheckpointManager, StepsSetAsideReplaceEachOther) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run", {.todelete_subdir = "old"});
  for (const std::int64_t value : {1, 2}) {
    manager.save(7, PyTreeSaveArgs{tree_of(value)});
    manager.wait_until_finished();
    manager.remove(7);
  }
  EXPECT_THAT(manager.all_steps(), IsEmpty());
  EXPECT_EQ(x_of(load(dir / "run/old/7")), 2);
}

// Nothing is moved to where a link leads.
TEST(CheckpointManager, StepsAreNotSetAsideThroughALink) {
  const TempDir dir = TempDir::in_memory();
  make_directories(dir / "elsewhere/1");
  put_file(dir / "elsewhere/1/_METADATA", "{}");
  CheckpointManager manager(dir / "run", {.todelete_subdir = "old"});
  std::filesystem::create_directory_symlink(dir / "elsewhere", dir / "run/old");
  manager.save(1, PyTreeSaveArgs{tree_of(1)});
  manager.wait_until_finished();
  EXPECT_THAT([&] { manager.remove(1); }, FailsWith(Code::kIo, "run/old"));
  EXPECT_EQ(x_of(manager.restore(1)), 1);
  EXPECT_THAT(list_directory(dir / "elsewhere").folders, ElementsAre("1"));
}

TEST(CheckpointManager, AStepThatIsBeingSavedIsNotRemoved) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run");
  manager.save(1, PyTreeSaveArgs{tree_of(1)});
  manager.wait_until_finished();
  {
    const SaveLock other(dir / "run/1");
    EXPECT_THAT([&] { manager.remove(1); }, FailsWith(Code::kUnavailable, "run/1"));
  }
  EXPECT_EQ(x_of(manager.restore(1)), 1);
  manager.remove(1);
  EXPECT_THAT(list_directory(dir / "run").folders, IsEmpty());
}

// The save cannot end before the directory has been listed.
TEST(CheckpointManager, AReloadKeepsTheStepThatIsBeingSaved) {
  const TempDir dir = TempDir::in_memory();
  std::promise<void> listed;
  std::atomic<bool> waits = false;
  CheckpointManagerOptions options{.max_to_keep = 2};
  options.handler.observer = [&, may_end = listed.get_future().share()](const Event& event) {
    if (event.name == "save.item_written" && waits) may_end.wait_for(std::chrono::seconds(60));
  };
  CheckpointManager manager(dir / "run", options);
  manager.save(1, PyTreeSaveArgs{tree_of(1)});
  manager.wait_until_finished();
  waits = true;
  manager.save(2, PyTreeSaveArgs{tree_of(2)});
  manager.reload();
  EXPECT_THAT(manager.all_steps(), ElementsAre(1, 2));
  EXPECT_THAT(manager.incomplete_steps(), IsEmpty());
  listed.set_value();
  manager.wait_until_finished();
  waits = false;
  EXPECT_EQ(manager.latest_step(), 2);
  manager.save(3, PyTreeSaveArgs{tree_of(3)});
  manager.close();
  EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("2", "3"));
}

// The thread that removes a step cannot end before others have gone on.
TEST(CheckpointManager, NobodyWaitsForARemovalInTheBackground) {
  for (const bool async : {false, true}) {
    const TempDir dir = TempDir::in_memory();
    std::promise<void> gone_on;
    std::atomic<bool> in_time = true;
    CheckpointManagerOptions options{
        .max_to_keep = 2, .enable_background_delete = true, .enable_async_checkpointing = async};
    options.handler.observer = [&, may_end = gone_on.get_future().share()](const Event& event) {
      if (event.name == "steps.removed" &&
          may_end.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
        in_time = false;
    };
    CheckpointManager manager(dir / "run", options);
    for (const std::int64_t step : {1, 2}) manager.save(step, PyTreeSaveArgs{tree_of(step)});
    manager.remove(1);
    EXPECT_THAT(manager.all_steps(), ElementsAre(2));
    manager.reload();
    EXPECT_THAT(manager.all_steps(), ElementsAre(2));
    EXPECT_TRUE(manager.save(3, PyTreeSaveArgs{tree_of(3)}));
    EXPECT_TRUE(manager.should_save(4));
    gone_on.set_value();
    EXPECT_TRUE(manager.save(4, PyTreeSaveArgs{tree_of(4)}));  // removes step 2
    EXPECT_THAT(manager.all_steps(), ElementsAre(3, 4));
    manager.close();
    EXPECT_TRUE(in_time);
    EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("3", "4"));
  }
}

// covers: manager.CheckpointManagerOptions.enable_background_delete
TEST(CheckpointManager, AStepThatIsBeingRemovedIsSavedAgain) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run", {.enable_background_delete = true});
  for (std::int64_t value = 1; value <= 20; ++value) {
    manager.save(7, PyTreeSaveArgs{tree_of(value)});
    manager.wait_until_finished();
    EXPECT_EQ(x_of(manager.restore(7)), value);
    manager.remove(7);
  }
  manager.close();
  EXPECT_THAT(list_directory(dir / "run").folders, IsEmpty());
}

// covers: manager.CheckpointManagerOptions.enable_background_delete
// note: `wait_until_finished` also waits for removals.
TEST(CheckpointManager, AnErrorOfARemovalInTheBackgroundIsTold) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run", {.enable_background_delete = true});
  for (const std::int64_t step : {1, 2}) manager.save(step, PyTreeSaveArgs{tree_of(step)});
  manager.wait_until_finished();
  put_file(dir / "run/1/notes.txt", "mine");
  manager.remove(1);
  EXPECT_THAT(manager.all_steps(), ElementsAre(2));
  EXPECT_THAT([&] { manager.wait_until_finished(); }, FailsWith(Code::kAlreadyExists, "notes.txt"));
  EXPECT_THAT(manager.all_steps(), ElementsAre(1, 2));
  EXPECT_EQ(x_of(manager.restore(1)), 1);
}

// A step whose removal was interrupted is not wanted any more, even if it is whole.
TEST(CheckpointManager, CleanEndsAnInterruptedRemoval) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run");
  manager.save(1, PyTreeSaveArgs{tree_of(1)});
  manager.close();
  std::filesystem::rename(dir / "run/1", dir / "run/1.orbax-checkpoint-tmp-removed");
  const auto cleaned = clean_leftovers(dir / "run");
  ASSERT_EQ(cleaned.size(), 1U);
  EXPECT_EQ(cleaned.front().outcome, CleanOutcome::kRemoved);
  EXPECT_THAT(list_directory(dir / "run").folders, IsEmpty());
}

// Leftovers of other checkpoints, of saves in progress and with foreign files stay.
// covers: manager.CheckpointManagerOptions.cleanup_tmp_directories
// note: Foreign files and saves in progress stay.
TEST(CheckpointManager, LeftoversOfStepsAreRemovedOnRequest) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager(dir / "run").save(1, PyTreeSaveArgs{tree_of(1)});
  const std::string mark = ".orbax-checkpoint-tmp";
  for (const char* name : {"2", "3", "4", "model"})
    std::filesystem::copy(dir / "run/1", dir / ("run/" + (name + mark)),
                          std::filesystem::copy_options::recursive);
  std::filesystem::copy(dir / "run/1", dir / ("run/5" + mark + "-old"),
                        std::filesystem::copy_options::recursive);
  std::filesystem::copy(dir / "run/1", dir / ("run/6" + mark + "-removed"),
                        std::filesystem::copy_options::recursive);
  put_file(dir / ("run/3" + mark + "/notes.txt"), "mine");
  const SaveLock in_progress(dir / "run/4");
  std::vector<std::string> left;
  CheckpointManagerOptions options{.cleanup_tmp_directories = true};
  options.handler.observer = [&](const Event& event) { left.emplace_back(event.name); };
  CheckpointManager manager(dir / "run", options);
  EXPECT_THAT(list_directory(dir / "run").folders,
              ElementsAre("1", "3" + mark, "4" + mark, "5" + mark + "-old", "model" + mark));
  EXPECT_THAT(left, ElementsAre("steps.not_removed", "steps.not_removed", "steps.found"));
  EXPECT_EQ(x_of(manager.restore()), 1);
}

TEST(CheckpointManager, TheMetadataOfTheRunAreStoredOnce) {
  const TempDir dir = TempDir::in_memory();
  EXPECT_EQ(CheckpointManager(dir / "run").root_metadata(), "");
  EXPECT_EQ(CheckpointManager(dir / "run", {.root_metadata = R"({"a":1})"}).root_metadata(),
            R"({"a": 1})");
  EXPECT_EQ(CheckpointManager(dir / "run", {.root_metadata = R"({"a":2})"}).root_metadata(),
            R"({"a": 1})");
  make_directories(dir / "none");
  const CheckpointManagerOptions reading{.read_only = true, .root_metadata = R"({"a":3})"};
  EXPECT_EQ(CheckpointManager(dir / "run", reading).root_metadata(), R"({"a": 1})");
  EXPECT_EQ(CheckpointManager(dir / "none", reading).root_metadata(), R"({"a": 3})");
  EXPECT_THAT(list_directory(dir / "none").folders, IsEmpty());
  put_file(dir / "old/metadata/metadata", R"({"lang": "en"})");
  EXPECT_EQ(CheckpointManager(dir / "old").root_metadata(), R"({"lang": "en"})");
  put_file(dir / "bad/metadata/_ROOT_METADATA", "{");
  EXPECT_THAT([&] { (void)CheckpointManager(dir / "bad").root_metadata(); },
              FailsWith(Code::kDataLoss, "_ROOT_METADATA"));
}

// A diverged run has a loss of NaN, which compares with nothing.
// covers: manager.CheckpointManagerOptions.best_fn
// note: A metric of NaN is the worst one. Orbax's order is then arbitrary.
TEST(CheckpointManager, NanIsTheWorstMetric) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const BestMode mode : {BestMode::kMin, BestMode::kMax}) {
    const TempDir dir = TempDir::in_memory();
    const CheckpointManagerOptions options{
        .max_to_keep = 2, .best_fn = metric("loss"), .best_mode = mode};
    CheckpointManager manager(dir / "run", options);
    std::int64_t step = 0;
    for (const double loss : {nan, 2.0, nan, 3.0, nan}) {
      ++step;
      manager.save(step, PyTreeSaveArgs{tree_of(step)}, {.metrics = Metrics{{"loss", loss}}});
    }
    manager.wait_until_finished();
    EXPECT_THAT(manager.all_steps(), ElementsAre(2, 4));
    EXPECT_EQ(manager.best_step(), mode == BestMode::kMin ? 2 : 4);
  }
}

// Orbax stores trees of metrics.
// covers: manager.CheckpointManagerOptions.best_fn
// note: In C++ metrics are named numbers; a nested one is `eval.loss`.
TEST(CheckpointManager, NestedMetricsHaveTheNamesOfTheirPaths) {
  const TempDir dir = TempDir::in_memory();
  const CheckpointManagerOptions options{
      .best_fn = metric("eval.loss"), .best_mode = BestMode::kMin, .prevent_write_metrics = true};
  {
    CheckpointManager manager(dir / "run", options);
    for (const std::int64_t step : {1, 2, 3}) save_with_loss(manager, step, 0);
  }
  put_file(dir / "run/1/metrics/metrics", R"({"eval": {"loss": 0.25, "note": "x"}, "n": 1})");
  put_file(dir / "run/2/metrics/metrics", R"({"eval": {"loss": 2, "by": [0.5, {"k": 3}]}})");
  put_file(dir / "run/3/metrics/metrics", R"({"eval.loss": 1, "eval": {"loss": 0}})");
  CheckpointManager manager(dir / "run", options);
  EXPECT_EQ(manager.metrics(1), (Metrics{{"eval.loss", 0.25}, {"n", 1}}));
  EXPECT_EQ(manager.metrics(2),
            (Metrics{{"eval.loss", 2}, {"eval.by.0", 0.5}, {"eval.by.1.k", 3}}));
  EXPECT_EQ(manager.metrics(3), (Metrics{{"eval.loss", 1}}));
  EXPECT_EQ(manager.best_step(), 1);
}

// A manager whose policy throws has saved nothing and lost nothing.
TEST(CheckpointManager, AnErrorOfAPolicyIsThrown) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run", {.max_to_keep = 1, .best_fn = metric("loss")});
  manager.save(1, PyTreeSaveArgs{tree_of(1)}, {.metrics = Metrics{{"loss", 1}}});
  EXPECT_THAT(
      [&] {
        (void)manager.save(2, PyTreeSaveArgs{tree_of(2)}, {.metrics = Metrics{{"accuracy", 1}}});
      },
      FailsWith(Code::kNotFound, "'loss'"));
  EXPECT_THAT(manager.all_steps(), ElementsAre(1));
  EXPECT_EQ(x_of(manager.restore()), 1);
  EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("1"));
}

// covers: manager.CheckpointManager.save
// note: A manager that is closed or read-only refuses a forced save. Orbax saves.
TEST(CheckpointManager, NothingIsSavedAfterClose) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run");
  manager.save(1, PyTreeSaveArgs{tree_of(1)});
  manager.close();
  EXPECT_THAT([&] { (void)manager.save(2, PyTreeSaveArgs{tree_of(2)}); },
              FailsWith(Code::kFailedPrecondition, "closed"));
  EXPECT_EQ(x_of(manager.restore()), 1);
}

// ThreadSanitizer sees what they share.
TEST(CheckpointManager, OtherThreadsAskWhileOneSaves) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run", {.max_to_keep = 2, .best_fn = metric("loss")});
  std::atomic<bool> ended = false;
  const auto ask = [&] {
    std::int64_t latest = 0;
    while (!ended) {
      const std::int64_t seen = manager.latest_step().value_or(0);
      EXPECT_GE(seen, latest);
      latest = seen;
      EXPECT_LE(manager.all_steps().size(), 3U);
      EXPECT_THAT(manager.incomplete_steps(), IsEmpty());
      (void)manager.metrics(latest);
      EXPECT_FALSE(manager.reached_preemption());
      (void)manager.is_saving_in_progress();
      EXPECT_EQ(manager.directory(), dir / "run");
    }
  };
  auto first = std::async(std::launch::async, ask), second = std::async(std::launch::async, ask);
  for (std::int64_t step = 1; step <= 30; ++step) {
    manager.save(step, PyTreeSaveArgs{tree_of(step)}, {.metrics = Metrics{{"loss", 1.0}}});
    if (step % 5 == 0) manager.reload();
  }
  manager.wait_until_finished();
  ended = true;
  first.get();
  second.get();
  EXPECT_THAT(manager.all_steps(), ElementsAre(29, 30));
}

TEST(SavePolicy, PoliciesThatAreMissing) {
  EXPECT_THAT([] { (void)save_policy::any_of({SavePolicy()}); },
              FailsWith(Code::kInvalidArgument, "null"));
  EXPECT_THAT([] { (void)keep_policy::any_of({KeepPolicy()}); },
              FailsWith(Code::kInvalidArgument, "no function"));
  EXPECT_THAT([] { (void)keep_policy::best(1, MetricFn()); },
              FailsWith(Code::kInvalidArgument, "no metric"));
}

// covers: manager.CheckpointManagerOptions.save_decision_policy
TEST(SavePolicy, ContinuousWaitsForTheSaveBefore) {
  const SavePolicy policy = save_policy::continuous(std::chrono::hours(1));
  const auto now = std::chrono::system_clock::now();
  const std::vector<StepInfo> fresh{{.step = 1, .time = now}};
  const std::vector<StepInfo> old{{.step = 1, .time = now - std::chrono::hours(2)}};
  EXPECT_TRUE(policy.decide({.step = 2}));
  EXPECT_FALSE(policy.decide({.step = 2, .is_saving = true}));
  EXPECT_FALSE(policy.decide({.step = 2, .saved = fresh}));
  EXPECT_TRUE(policy.decide({.step = 2, .saved = old}));
}

// As in Orbax: a policy is the only thing that decides.
TEST(SavePolicy, TheStepBeforeTheEndIsSavedIfThePolicySaysSo) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManagerOptions options{.save_policy = save_policy::fixed_interval(10),
                                   .is_preempted = [](std::int64_t step) { return step == 7; }};
  EXPECT_FALSE(CheckpointManager(dir / "run", options).should_save(7));
  options.save_policy =
      save_policy::any_of({save_policy::fixed_interval(10), save_policy::preemption()});
  CheckpointManager manager(dir / "run", options);
  for (std::int64_t step = 1; step < 12; ++step)
    EXPECT_EQ(manager.save(step, PyTreeSaveArgs{tree_of(step)}), step == 7 || step == 10) << step;
  EXPECT_TRUE(CheckpointManager(dir / "run2", {.is_preempted = options.is_preempted})
                  .save(7, PyTreeSaveArgs{tree_of(7)}));
}

// The last save was just before the restart, so an hour has not passed.
TEST(SavePolicy, ContinuousKnowsTheTimeOfASaveBeforeARestart) {
  const TempDir dir = TempDir::in_memory();
  const CheckpointManagerOptions options{.save_policy =
                                             save_policy::continuous(std::chrono::hours(1))};
  {
    CheckpointManager manager(dir / "run", options);
    save_with_loss(manager, 1, 0.5);
    EXPECT_FALSE(manager.should_save(2));
    manager.reload();
    EXPECT_FALSE(manager.should_save(2));
  }
  EXPECT_FALSE(CheckpointManager(dir / "run", options).should_save(2));
  const CheckpointManagerOptions often{.save_policy =
                                           save_policy::continuous(std::chrono::nanoseconds(1))};
  EXPECT_TRUE(CheckpointManager(dir / "run", often).should_save(2));
}

// Otherwise nothing is saved until the clock is where it was.
TEST(SavePolicy, ContinuousDoesNotWaitForAClockThatWasSetBack) {
  const SavePolicy policy = save_policy::continuous(std::chrono::hours(1));
  const auto now = std::chrono::system_clock::now();
  for (const int minutes : {-61, -1, 1, 600}) {
    const std::vector<StepInfo> saved{{.step = 1, .time = now + std::chrono::minutes(minutes)}};
    EXPECT_EQ(policy.decide({.step = 2, .saved = saved}), minutes != -1) << minutes;
  }
}

// covers: manager.CheckpointManagerOptions.save_decision_policy
TEST(SavePolicy, AFunctionSeesTimesAndMetricsAfterARestart) {
  const TempDir dir = TempDir::in_memory();
  const auto before = std::chrono::system_clock::now();
  {
    CheckpointManager manager(dir / "run", {.best_fn = metric("loss")});
    save_with_loss(manager, 1, 0.5);
    save_with_loss(manager, 2, 0.25);
  }
  std::vector<double> losses;
  const auto decide = [&](const SaveQuestion& question) {
    losses.clear();
    for (const StepInfo& info : question.saved) {
      losses.push_back(info.metrics->at("loss"));
      EXPECT_GE(info.time, before);
    }
    return true;
  };
  CheckpointManager manager(dir / "run", {.save_policy = decide, .best_fn = metric("loss")});
  EXPECT_TRUE(manager.should_save(3));
  EXPECT_THAT(losses, ElementsAre(0.5, 0.25));
  save_with_loss(manager, 3, 0.75);
  manager.reload();
  EXPECT_TRUE(manager.should_save(4));
  EXPECT_THAT(losses, ElementsAre(0.5, 0.25, 0.75));
}

// Metrics that cannot be read are an error only where they are needed.
TEST(SavePolicy, OnlyThePolicyThatNeedsDetailsReadsThem) {
  const TempDir dir = TempDir::in_memory();
  {
    CheckpointManager manager(dir / "run", {.best_fn = metric("loss")});
    for (const std::int64_t step : {1, 2}) save_with_loss(manager, step, 1);
  }
  const std::string file = dir / "run/1/metrics/metrics";
  const Bytes whole = read_file(file);
  const auto ask = [&](SavePolicy policy) {
    put_file(file, as_text(whole));
    const CheckpointManager manager(dir / "run", {.save_policy = std::move(policy)});
    put_file(file, "{");  // before that, the step would not be complete
    return manager.should_save(3);
  };
  const SavePolicy yes{[](const SaveQuestion&) { return true; }};
  const auto hourly = save_policy::continuous(std::chrono::hours(1));
  EXPECT_TRUE(ask(save_policy::fixed_interval(3)));
  EXPECT_FALSE(ask(hourly));
  EXPECT_FALSE(ask(save_policy::any_of({save_policy::initial(), hourly})));
  EXPECT_THAT([&] { ask(yes); }, FailsWith(Code::kDataLoss, "run/1/metrics"));
  EXPECT_THAT(
      [&] {
        ask(save_policy::any_of({hourly, yes}));
      },
      FailsWith(Code::kDataLoss, "run/1/metrics"));
}

}  // namespace
}  // namespace cairn::orbax
