// store_manager_test.cc -- CheckpointManager and StepWatcher on runs in stores.
#include <cairn/checkpoint_manager.h>
#include <cairn/kvstore/memory_names.h>
#include <cairn/open.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tests/orbax/manager/store_run.h"
#include "tests/support/matchers.h"
#include "tests/support/processes.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::make_unfinished;
using cairn::testing::upload_run;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

CheckpointManagerOptions by_loss() {
  CheckpointManagerOptions options;
  options.best_fn = metric("loss");
  options.best_mode = BestMode::kMin;
  return options;
}

TEST(StoreManager, ReadsARun) {
  const std::string url = "memory://managed/run";
  upload_run(url, 3, {.root_metadata = R"({"name": "mine"})"});
  CheckpointManager manager(url + "/", by_loss());
  EXPECT_EQ(manager.directory(), url);
  EXPECT_THAT(manager.all_steps(), ElementsAre(1, 2, 3));
  EXPECT_EQ(manager.latest_step(), 3);
  EXPECT_EQ(manager.best_step(), 3);
  EXPECT_EQ(manager.metrics(2), (Metrics{{"loss", 0.5}}));
  EXPECT_EQ(manager.metrics(7), std::nullopt);
  EXPECT_EQ(manager.root_metadata(), R"({"name": "mine"})");
  EXPECT_THAT(manager.metadata(2).items, ElementsAre("default", "metrics"));
  EXPECT_EQ(manager.metadata(2).metrics, (Metrics{{"loss", 0.5}}));
  EXPECT_EQ(manager.restore(), (Tree{{"x", 3}}));
  EXPECT_EQ(manager.restore(1), (Tree{{"x", 1}}));
  EXPECT_EQ(manager.restore_items(2).count("default"), 1U);
  EXPECT_THAT([&] { (void)manager.restore(9); }, FailsWith(Code::kNotFound, "no such step"));
  EXPECT_THAT([&] { (void)manager.restore(1, {}, "other"); },
              FailsWith(Code::kNotFound, "no such item"));
  EXPECT_TRUE(manager.should_save(4));
  EXPECT_FALSE(manager.should_save(3));
  EXPECT_FALSE(std::filesystem::exists("memory:"));
}

TEST(StoreManager, SkipsUnfinishedStepsAndCleansThem) {
  const std::string url = "memory://skipped/run";
  upload_run(url, 3);
  make_unfinished(url + "/3");
  {
    CheckpointManager manager(url, {.read_only = true, .cleanup_tmp_directories = true});
    EXPECT_THAT(manager.all_steps(), ElementsAre(1, 2));
    EXPECT_THAT([&] { (void)manager.restore(3); }, FailsWith(Code::kNotFound, "not committed"));
  }
  EXPECT_FALSE(open_store(url)->list("3/").empty());
  CheckpointManager manager(url, {.cleanup_tmp_directories = true});
  EXPECT_THAT(open_store(url)->list("3/"), IsEmpty());
  EXPECT_THAT(manager.all_steps(), ElementsAre(1, 2));
}

TEST(StoreManager, RemovesStepsAlsoInTheBackground) {
  for (const bool in_background : {false, true}) {
    const std::string url = in_background ? "memory://removed/bg" : "memory://removed/fg";
    upload_run(url, 3);
    CheckpointManager manager(url, {.enable_background_delete = in_background});
    manager.remove(1);
    manager.wait_until_finished();
    EXPECT_THAT(manager.all_steps(), ElementsAre(2, 3));
    EXPECT_THAT(open_store(url)->list("1/"), IsEmpty());
    manager.reload();
    EXPECT_THAT(manager.all_steps(), ElementsAre(2, 3));
    EXPECT_THAT([&] { manager.remove(1); }, FailsWith(Code::kNotFound, "no such step"));
    CheckpointManager(url, {.read_only = true}).remove(2);
    EXPECT_FALSE(open_store(url)->list("2/").empty());
  }
}

TEST(StoreManager, SavesAndKeepsAndGoesOn) {
  for (const bool in_background : {false, true}) {
    const std::string url = in_background ? "memory://saved/bg" : "memory://saved/fg";
    CheckpointManagerOptions options = by_loss();
    options.max_to_keep = 2;
    options.enable_background_delete = in_background;
    const auto save = [](CheckpointManager& manager, std::int64_t step) {
      return manager.save(step, PyTreeSaveArgs{Tree{{"x", step}}},
                          {.metrics = Metrics{{"loss", step == 2 ? 0.0 : 1.0}}});
    };
    {
      CheckpointManager manager(url, options);
      for (std::int64_t step = 1; step <= 4; ++step) EXPECT_TRUE(save(manager, step));
      manager.wait_until_finished();
      EXPECT_THAT(manager.all_steps(), ElementsAre(2, 4));
      EXPECT_EQ(manager.best_step(), 2);
      EXPECT_THAT(
          [&] {
            (void)manager.save(4, PyTreeSaveArgs{Tree{{"x", 1}}}, {.force = true});
          },
          FailsWith(Code::kAlreadyExists, "already saved"));
      EXPECT_FALSE(save(manager, 3));
    }
    EXPECT_TRUE(open_store(url)->size("4/commit_success.txt"));
    EXPECT_THAT(open_store(url)->list("1/"), IsEmpty());
    CheckpointManager manager(url, options);
    EXPECT_THAT(manager.all_steps(), ElementsAre(2, 4));
    EXPECT_EQ(manager.restore(), (Tree{{"x", 4}}));
    EXPECT_TRUE(save(manager, 5));
    manager.close();
    EXPECT_THAT(manager.all_steps(), ElementsAre(2, 5));
    EXPECT_EQ(load(url), (Tree{{"x", 5}}));
  }
}

TEST(StoreManager, ASaveReplacesAnUnfinishedStep) {
  const std::string url = "memory://replaced-step/run";
  upload_run(url, 3);
  make_unfinished(url + "/3");
  CheckpointManager manager(url, {.enable_async_checkpointing = false});
  EXPECT_EQ(manager.latest_step(), 2);
  EXPECT_TRUE(manager.save(3, PyTreeSaveArgs{Tree{{"x", 33}}}));
  EXPECT_EQ(manager.restore(), (Tree{{"x", 33}}));
  EXPECT_THAT(open_store(url)->list("3/metrics/"), IsEmpty());
}

TEST(StoreManager, OfSeveralProcessesSaveAndRemoveTogether) {
  const std::string url = "memory://processes/run";
  upload_run(url, 2);
  make_unfinished(url + "/2");
  const auto errors =
      testing::run_as_processes(3, [&](const std::shared_ptr<Coordinator>& coordinator) {
        CheckpointManagerOptions options;
        options.max_to_keep = 2;
        options.handler.resources.threads = 1;
        options.handler.multiprocessing_options.coordinator = coordinator;
        CheckpointManager manager(url, options);
        ASSERT_THAT(manager.all_steps(), ElementsAre(1));
        for (std::int64_t step = 2; step <= 4; ++step)
          ASSERT_TRUE(manager.save(step, PyTreeSaveArgs{Tree{{"x", step}}}));
        manager.wait_until_finished();
        ASSERT_THAT(manager.all_steps(), ElementsAre(3, 4));
        ASSERT_EQ(manager.restore(), (Tree{{"x", 4}}));
        manager.remove(3);
        ASSERT_THAT(manager.all_steps(), ElementsAre(4));
        manager.close();
      });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
  EXPECT_THAT(list_step_folders(url), ::testing::SizeIs(1));
}

// The process is killed before each of the requests.
TEST(StoreManager, AKillLeavesStepsThatAreWholeOrUnfinished) {
  bool ended = false, saw_unfinished = false;
  for (std::size_t requests = 0; !ended; ++requests) {
    SCOPED_TRACE(requests);
    const std::string name = "killed-" + std::to_string(requests);
    const std::string url = "memory://" + name + "/run";
    const StorePtr kept = make_memory_store();
    name_memory_store(name, kept);
    upload_run(url, 3);
    name_memory_store(name, std::make_shared<testing::DyingStore>(kept, requests));
    const CheckpointManagerOptions options{.max_to_keep = 2, .enable_async_checkpointing = false};
    ended = try_call([&] {
              CheckpointManager manager(url, options);
              manager.save(4, PyTreeSaveArgs{Tree{{"x", 4}}});  // removes two steps
              return true;
            }).ok();
    name_memory_store(name, kept);
    const StorePtr run = open_store(url);
    saw_unfinished |= !run->list("4/").empty() && !run->size("4/commit_success.txt");
    CheckpointManager manager(url, options);
    ASSERT_THAT(manager.incomplete_steps(), IsEmpty());
    ASSERT_GE(manager.latest_step(), 3);
    for (const std::int64_t step : manager.all_steps())
      ASSERT_EQ(manager.restore(step), (Tree{{"x", step}}));
    manager.save(5, PyTreeSaveArgs{Tree{{"x", 5}}});
    ASSERT_THAT(manager.all_steps(), ::testing::SizeIs(2));
    ASSERT_EQ(load(url), (Tree{{"x", 5}}));
    CheckpointManager(url, {.cleanup_tmp_directories = true});
    for (const ListEntry& entry : run->list(""))
      ASSERT_THAT(manager.all_steps(), ::testing::Contains(std::stoll(entry.key))) << entry.key;
  }
  EXPECT_TRUE(saw_unfinished);
}

TEST(StoreManager, StoresRootMetadataOnce) {
  const std::string url = "memory://rooted/run";
  CheckpointManager first(url, {.root_metadata = R"({"a": 1})"});
  EXPECT_EQ(first.root_metadata(), R"({"a": 1})");
  EXPECT_EQ(CheckpointManager(url, {.root_metadata = R"({"a": 2})"}).root_metadata(),
            R"({"a": 1})");
  EXPECT_THAT(first.all_steps(), IsEmpty());
}

TEST(StoreManager, RefusesWhatAStoreCannotDo) {
  EXPECT_THAT([] { CheckpointManager("memory://refused/run", {.todelete_subdir = "old"}); },
              FailsWith(Code::kUnimplemented, "todelete_subdir"));
  EXPECT_THAT([] { CheckpointManager("memory://refused/run", {.read_only = true}); },
              FailsWith(Code::kNotFound, "memory://refused/run"));
  EXPECT_THAT([] { CheckpointManager("memory://refused/run", {.create = false}); },
              FailsWith(Code::kNotFound, "memory://refused/run"));
  EXPECT_THAT([] { CheckpointManager("https://host/run"); },
              FailsWith(Code::kUnimplemented, "https://host/run"));
  EXPECT_THAT([] { CheckpointManager("ftp://host/run"); },
              FailsWith(Code::kUnimplemented, "ftp://host/run"));
}

TEST(StoreManager, AWatcherWaitsForTheMarker) {
  const std::string url = "memory://watched/run";
  StepWatcherOptions options;
  options.poll_interval = std::chrono::milliseconds(1);
  options.timeout = std::chrono::milliseconds(0);
  StepWatcher watcher(url, options);
  EXPECT_EQ(watcher.next(), std::nullopt);
  upload_run(url, 2);
  const auto marker = *open_store(url)->read("2/commit_success.txt", {});
  const auto record = *open_store(url)->read("2/_CHECKPOINT_METADATA", {});
  make_unfinished(url + "/2");
  EXPECT_EQ(watcher.next(), 1);
  EXPECT_EQ(watcher.next(), std::nullopt);
  open_store(url)->write("2/_CHECKPOINT_METADATA", record);
  open_store(url)->write("2/commit_success.txt", marker);
  EXPECT_EQ(watcher.next(), 2);
}

}  // namespace
}  // namespace cairn::orbax
