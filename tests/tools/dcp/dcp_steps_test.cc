// dcp_steps_test.cc -- a manager's steps as Distributed Checkpoints: in folders and in stores, by
// one process and by several, and what they refuse.
#include <cairn/cairn.h>
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/storage/kvstore.h>
#include <gmock/gmock.h>
#include <tests/support/matchers.h>
#include <tests/support/processes.h>
#include <tests/support/temp_dir.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/tools/jobs.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::expect_all_well;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::job_of;
using testing::run_as_processes;
using ::testing::SizeIs;
using testing::TempDir;

CheckpointManagerOptions dcp_options() {
  CheckpointManagerOptions options;
  options.step_format = distributed_checkpoint_steps();
  return options;
}

PyTreeSaveArgs args_of(float value) {
  return {.item = Tree{{"w", Array::from<float>({value, value + 1}, {2})}, {"n", 7}}};
}

float first_of(const Tree& tree) { return tree.find("w")->array()->as<float>()[0]; }

class DcpStepsIn : public ::testing::TestWithParam<bool> {
 protected:
  // A root of its own for each test: a folder, or a store.
  [[nodiscard]] std::string root() const {
    if (!GetParam()) return dir_ / "run";
    return std::string("memory://dcp/") +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }

 private:
  TempDir dir_;
};

TEST_P(DcpStepsIn, AreSavedKeptAndRestored) {
  CheckpointManagerOptions options = dcp_options();
  options.max_to_keep = 2;
  options.best_fn = metric("loss");
  options.best_mode = BestMode::kMin;
  CheckpointManager manager(root(), options);
  for (const int step : {1, 2, 3, 4})
    EXPECT_TRUE(manager.save(step, args_of(static_cast<float>(step)),
                             {.metrics = Metrics{{"loss", step == 2 ? 0.0 : 5.0 - step}},
                              .custom_metadata = R"({"step": 1})"}));
  manager.wait_until_finished();
  EXPECT_THAT(manager.all_steps(), ElementsAre(2, 4));
  EXPECT_EQ(manager.best_step(), 2);
  EXPECT_EQ(first_of(manager.restore()), 4);
  EXPECT_EQ(first_of(manager.restore(2)), 2);
  EXPECT_EQ(manager.metrics(2)->at("loss"), 0.0);
  EXPECT_THAT(manager.metadata(2).custom_metadata, HasSubstr("step"));
  EXPECT_THAT([&] { (void)manager.restore(1); }, FailsWith(Code::kNotFound, "no such step"));
  manager.remove(4);
  EXPECT_THAT(read_steps(root()), SizeIs(1));
  const StepRecord record = read_steps(root())[0];
  EXPECT_TRUE(record.complete);
  EXPECT_TRUE(record.committed_at_ns);
  EXPECT_EQ(record.metrics, (Metrics{{"loss", 0.0}}));
  EXPECT_EQ(open(root())->info().step, 2);
  EXPECT_THAT(open(root())->info().custom_metadata, HasSubstr("step"));
  CheckpointManager later(root(), options);
  EXPECT_EQ(later.latest_step(), 2);
  StepWatcher watcher(root(), {.step_format = options.step_format});
  EXPECT_EQ(watcher.next(), 2);
}

TEST_P(DcpStepsIn, ThatLackAFileDoNotCount) {
  const CheckpointManagerOptions options = dcp_options();
  for (const int step : {1, 2, 3}) {
    CheckpointManager manager(root(), options);
    manager.save(step, args_of(static_cast<float>(step)));
  }
  const auto remove_data = [&](const std::string& step, const std::string& name) {
    if (GetParam())
      open_store(root())->remove(step + "/" + name);
    else
      fs::remove(fs::path(root()) / step / name);
  };
  remove_data("3", "__0_0.distcp");
  remove_data("2", ".metadata");
  CheckpointManager manager(root(), options);
  EXPECT_THAT(manager.all_steps(), ElementsAre(1));
  ASSERT_THAT(manager.incomplete_steps(), SizeIs(2));
  EXPECT_THAT(manager.incomplete_steps()[0].reason, HasSubstr("no .metadata"));
  EXPECT_THAT(manager.incomplete_steps()[1].reason, HasSubstr("__0_0.distcp: the file is missing"));
  EXPECT_EQ(open(root())->info().step, 1);
  EXPECT_EQ(open(root(), {.step = 1})->info().step, 1);
  EXPECT_THAT([&] { (void)open(root(), {.step = 9}); },
              FailsWith(Code::kNotFound, "step 9 is not in"));
  EXPECT_TRUE(manager.save(4, args_of(4)));
  manager.wait_until_finished();
  EXPECT_THAT(prune_steps(root(), {.keep_last = 1}), SizeIs(4));
  EXPECT_THAT(CheckpointManager(root(), options).all_steps(), ElementsAre(4));
}

TEST_P(DcpStepsIn, AreSavedBySeveralProcesses) {
  const std::string where = root();
  constexpr std::size_t kProcesses = 3;
  const Array whole = Array::from<float>({0, 1, 2, 3, 4, 5, 6, 7, 8}, {3, 3});
  const Mesh mesh = make_mesh({3}, {"x"});
  const auto errors = run_as_processes(kProcesses, [&](const auto& coordinator) {
    CheckpointManagerOptions options = dcp_options();
    options.max_to_keep = 1;
    options.handler.multiprocessing_options = job_of(coordinator);
    CheckpointManager manager(where, options);
    const auto rank = static_cast<std::int64_t>(coordinator->process_index());
    const std::int64_t device[] = {rank};
    const Tree tree{
        {"w", ShardedArray::from_array(whole, named_sharding(mesh, {{"x"}, {}}), device)},
        {"n", 7}};
    for (const int step : {1, 2}) manager.save(step, {.item = tree});
    manager.close();
    EXPECT_THAT(manager.all_steps(), ElementsAre(2));
  });
  expect_all_well(errors);
  EXPECT_EQ(*load(where).find("w")->array(), whole);
  EXPECT_EQ(incomplete_reason(where + "/2"), "");
  EXPECT_THAT(open(where)->verify({}).findings, IsEmpty());
}

TEST_P(DcpStepsIn, AFailureOfOneProcessFailsAll) {
  const std::string where = root();
  const auto errors = run_as_processes(2, [&](const auto& coordinator) {
    CheckpointManagerOptions options = dcp_options();
    options.handler.multiprocessing_options = job_of(coordinator);
    CheckpointManager manager(where, options);
    Tree tree{{"w", Array::from<float>({1}, {1})}};
    if (coordinator->process_index() == 1) tree = Tree{{"other", 1}};
    manager.save(1, {.item = tree});
    manager.close();
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message(), HasSubstr("do not save the same entries"));
  }
  EXPECT_THAT(CheckpointManager(where, dcp_options()).all_steps(), IsEmpty());
}

TEST_P(DcpStepsIn, AnUnfinishedOneIsRemovedByClean) {
  const std::string where = root();
  CheckpointManager(where, dcp_options()).save(1, args_of(1), {.metrics = Metrics{{"a", 1}}});
  const std::string begun = R"({"init_timestamp_nsecs": 1})";
  if (GetParam()) {
    const StorePtr store = open_store(where);
    store->write("2/_CHECKPOINT_METADATA", as_bytes(begun));
    for (const char* name : {"2/__0_0.distcp", "2/metrics/metrics"})
      store->write(name, as_bytes("{}"));
  } else {
    const fs::path folder = fs::path(where) / "2.orbax-checkpoint-tmp";
    fs::create_directories(folder / "metrics");
    for (const char* name : {"__0_0.distcp.cairn-tmp-1f", "__1_0.distcp", "metrics/metrics"})
      std::ofstream(folder / name) << "{}";
  }
  EXPECT_THAT(CheckpointManager(where, dcp_options()).all_steps(), ElementsAre(1));
  const std::vector<CleanedPath> cleaned = clean_leftovers(where);
  ASSERT_THAT(cleaned, SizeIs(1));
  EXPECT_EQ(cleaned[0].outcome, CleanOutcome::kRemoved) << cleaned[0].why;
  EXPECT_THAT(read_steps(where), SizeIs(1));
}

INSTANTIATE_TEST_SUITE_P(Places, DcpStepsIn, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Store" : "Folder"; });

// The caller may change its arrays as soon as save() has returned.
TEST(DcpSteps, AreCopiedBeforeTheSaveReturns) {
  const TempDir dir;
  std::vector<float> values(1 << 20, 1.0F);
  const std::shared_ptr<const void> owner(values.data(), [](const void*) {});
  const Array lent(DType::kFloat32, sizeof(float), {1 << 20}, owner,
                   reinterpret_cast<const std::byte*>(values.data()));
  CheckpointManager manager(dir / "run", dcp_options());
  for (const int step : {1, 2, 3}) {
    std::ranges::fill(values, static_cast<float>(step));
    manager.save(step, {.item = Tree{{"w", lent}}});
    std::ranges::fill(values, -1.0F);
  }
  manager.wait_until_finished();
  for (const int step : {1, 2, 3}) {
    const Tree tree = manager.restore(step);
    for (const float value : tree.find("w")->array()->as<float>())
      ASSERT_EQ(value, static_cast<float>(step));
  }
}

TEST(DcpSteps, RefuseOptionsOfOrbaxSteps) {
  const TempDir dir;
  const auto refused = [&](const auto& change, const std::string& name) {
    CheckpointManagerOptions options = dcp_options();
    change(options.handler);
    EXPECT_THAT([&] { CheckpointManager(dir / "run", options); },
                FailsWith(Code::kInvalidArgument, "have no option " + name));
  };
  refused([](auto& handler) { handler.use_zarr3 = true; }, "use_zarr3");
  refused([](auto& handler) { handler.use_ocdbt = false; }, "use_ocdbt");
  refused([](auto& handler) { handler.compression = Compression::kSmallest; }, "compression");
  refused([](auto& handler) { handler.reuse = Reuse::kUnchanged; }, "reuse");
  EXPECT_FALSE(file_exists(dir / "run"));
  CheckpointManager manager(dir / "run", dcp_options());
  PyTreeSaveArgs args = args_of(1);
  args.custom_metadata = "{}";
  EXPECT_THAT([&] { manager.save(1, args); }, FailsWith(Code::kInvalidArgument, "custom_metadata"));
  EXPECT_THAT(
      [&] {
        manager.save(1, CheckpointItems{{"a", JsonItem{"{}"}}});
      },
      FailsWith(Code::kInvalidArgument, "one tree each"));
  EXPECT_THAT(
      [&] {
        manager.save(1, {.item = Tree{{"w", ShapeDtypeStruct{}}}});
      },
      FailsWith(Code::kInvalidArgument, "w"));
  EXPECT_THAT(manager.all_steps(), IsEmpty());
  EXPECT_TRUE(fs::is_empty(dir / "run"));
  manager.save(1, args_of(1));
  EXPECT_THAT([&] { (void)manager.restore(1, {.partial_restore = true}); },
              FailsWith(Code::kInvalidArgument, "partial_restore"));
}

TEST(DcpSteps, HaveOtherNames) {
  const TempDir dir;
  CheckpointManagerOptions options = dcp_options();
  options.step_name_format = StepNameFormat("step");
  options.step_name_format.separator = "-";
  CheckpointManager(dir / "run", options).save(100, args_of(1));
  EXPECT_TRUE(file_exists(dir / "run/step-100/.metadata"));
  EXPECT_THAT(CheckpointManager(dir / "run", options).all_steps(), ElementsAre(100));
  EXPECT_EQ(read_steps(dir / "run")[0].step, 100);
  EXPECT_EQ(open(dir / "run")->info().step, 100);
  fs::copy(dir / "run/step-100", dir / "run/epoch=100", fs::copy_options::recursive);
  EXPECT_THAT([&] { (void)open(dir / "run"); },
              FailsWith(Code::kInvalidArgument, "'epoch=100' and 'step-100'"));
  fs::remove_all(dir / "run/epoch=100");
  fs::rename(dir / "run/step-100", dir / "run/iter_0000100");
  EXPECT_EQ(open(dir / "run")->info().step, 100);
  fs::rename(dir / "run/iter_0000100", dir / "run/v2.100");
  EXPECT_THAT([&] { (void)open(dir / "run"); }, FailsWith(Code::kInvalidArgument, "run"));
  EXPECT_THAT(read_steps(dir / "run"), IsEmpty());
}

TEST(DcpSteps, AStepOfAnotherProgramIsNotRemoved) {
  const TempDir dir;
  CheckpointManagerOptions options = dcp_options();
  options.max_to_keep = 1;
  CheckpointManager manager(dir / "run", options);
  manager.save(1, args_of(1));
  manager.wait_until_finished();
  std::ofstream(dir / "run/1/notes.txt") << "mine";
  manager.save(2, args_of(2));
  EXPECT_THAT([&] { manager.wait_until_finished(); }, FailsWith(Code::kAlreadyExists, "notes.txt"));
  EXPECT_TRUE(file_exists(dir / "run/1/.metadata"));
}

}  // namespace
}  // namespace cairn
