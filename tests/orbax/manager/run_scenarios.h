// run_scenarios.h -- what a manager does while it is killed or its calls fail, and what must be
// true of its directory afterwards.
#pragma once

#include <cairn/checkpoint_manager.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/orbax/layout/layout.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/orbax/manager/small_steps.h"
#include "tests/support/temp_dir.h"

namespace cairn::testing {

struct RunScenario {
  std::string name;
  CheckpointManagerOptions options;
  std::function<void(const std::string& root)> prepare;
  // Throws unless everything is done.
  std::function<void(const std::string& root)> work;
  // is_done: `work` has returned. Checks with ASSERT.
  std::function<void(const std::string& root, bool is_done)> check;
};

inline void PrintTo(const RunScenario& scenario, std::ostream* out) { *out << scenario.name; }

inline std::int64_t value_at(const std::string& folder) {
  return std::get<std::int64_t>(load(folder).at("x").value());
}

// Checks that every step that is there restores, and returns them.
inline std::vector<std::int64_t> whole_steps(CheckpointManager& manager) {
  for (const std::int64_t step : manager.all_steps())
    EXPECT_EQ(manager.restore(step), tree_of(step));
  return manager.all_steps();
}

// Saves in the background, each with the removal of an older step; with kCommitMarker, the next
// save does not wait for the removal.
inline RunScenario async_saves(CommitProtocol protocol) {
  CheckpointManagerOptions options = three_steps(protocol);
  options.enable_async_checkpointing = true;
  options.enable_background_delete = protocol == CommitProtocol::kCommitMarker;
  const auto save = [options](const std::string& root, std::vector<std::int64_t> steps) {
    CheckpointManager manager(root, options);
    for (const std::int64_t step : steps) save_step(manager, step);
    manager.close();
  };
  const auto check = [options](const std::string& root, bool is_done) {
    CheckpointManager manager(root, options);
    const auto steps = whole_steps(manager);
    ASSERT_THAT(steps, ::testing::Contains(3));
    if (steps.back() == 3) {
      ASSERT_THAT(steps, ::testing::ElementsAre(1, 2, 3));
    }
    if (is_done) {
      ASSERT_THAT(steps, ::testing::ElementsAre(3, 4, 5));
    }
  };
  return {protocol == CommitProtocol::kAtomicRename ? "Async" : "AsyncInPlace", options,
          [save](const std::string& root) {
            save(root, {1, 2, 3});
          },
          [save](const std::string& root) {
            save(root, {4, 5});
          },
          check};
}

// Steps are set aside. Step 1 takes the place of an older step of that number.
inline RunScenario soft_deletes() {
  CheckpointManagerOptions options = three_steps();
  options.todelete_subdir = "old";
  const auto prepare = [options](const std::string& root) {
    CheckpointManager manager(root, options);
    manager.save(1, PyTreeSaveArgs{tree_of(100)});
    manager.remove(1);
    for (const std::int64_t step : {1, 2, 3}) save_step(manager, step);
  };
  const auto work = [options](const std::string& root) {
    CheckpointManager manager(root, options);
    save_step(manager, 4);  // sets step 1 aside
    manager.remove(2);
  };
  const auto check = [options](const std::string& root, bool is_done) {
    CheckpointManager manager(root, options);
    const auto steps = whole_steps(manager);
    ASSERT_THAT(steps, ::testing::Contains(3));
    if (is_done) {
      ASSERT_THAT(steps, ::testing::ElementsAre(3, 4));
    }
    // No step is lost, and none is in both places.
    for (const std::int64_t step : {1, 2}) {
      const bool is_aside = directory_exists(root + "/old/" + std::to_string(step));
      const bool is_there = std::ranges::find(steps, step) != steps.end();
      ASSERT_TRUE(is_aside || is_there) << step;
      if (!is_aside) continue;
      ASSERT_EQ(value_at(root + "/old/" + std::to_string(step)), is_there ? 100 : step);
    }
  };
  return {"SoftDelete", options, prepare, work, check};
}

// The best two steps by their loss. A step that is not among them goes as soon as it is saved.
inline RunScenario best_steps() {
  CheckpointManagerOptions options{.max_to_keep = 2,
                                   .best_fn = metric("loss"),
                                   .best_mode = BestMode::kMin,
                                   .enable_async_checkpointing = false};
  options.handler.resources.threads = 1;
  static constexpr std::array kLosses = {0.0, 0.5, 0.1, 0.9, 0.3, 0.7};  // by step
  const auto save = [options](const std::string& root, std::vector<std::int64_t> steps) {
    CheckpointManager manager(root, options);
    for (const std::int64_t step : steps)
      manager.save(step, PyTreeSaveArgs{tree_of(step)},
                   {.metrics = Metrics{{"loss", kLosses.at(static_cast<std::size_t>(step))}}});
  };
  const auto check = [options](const std::string& root, bool is_done) {
    CheckpointManager manager(root, options);
    const auto steps = whole_steps(manager);
    for (const std::int64_t step : steps)
      ASSERT_EQ(manager.metrics(step),
                (Metrics{{"loss", kLosses.at(static_cast<std::size_t>(step))}}));
    ASSERT_EQ(manager.best_step(), 2);
    ASSERT_THAT(steps, ::testing::AnyOf(::testing::Contains(1), ::testing::Contains(4)));
    if (is_done) {
      ASSERT_THAT(steps, ::testing::ElementsAre(2, 4));
    }
  };
  return {"Best", options,
          [save](const std::string& root) {
            save(root, {1, 2, 3});
          },
          [save](const std::string& root) {
            save(root, {4, 5});
          },
          check};
}

// Steps of several items and metrics, which restore together, with the marker.
inline RunScenario several_items() {
  CheckpointManagerOptions options = three_steps(CommitProtocol::kCommitMarker);
  options.best_fn = metric("loss");
  options.best_mode = BestMode::kMin;
  const auto save = [options](const std::string& root, std::vector<std::int64_t> steps) {
    CheckpointManager manager(root, options);
    for (const std::int64_t step : steps) {
      const std::string text = std::to_string(step);
      const auto write = [text](const std::string& folder) { put_file(folder + "/mine", text); };
      manager.save(step,
                   CheckpointItems{{"default", PyTreeSaveArgs{tree_of(step)}},
                                   {"config", JsonItem{text}},
                                   {"files", FilesItem{.handler = "my.Handler", .write = write}}},
                   {.metrics = Metrics{{"loss", 1.0 / static_cast<double>(step)}}});
    }
  };
  const auto check = [options](const std::string& root, bool is_done) {
    CheckpointManager manager(root, options);
    const auto steps = manager.all_steps();
    for (const std::int64_t step : steps) {
      const auto read = [](const std::string& folder) {
        return std::any(std::string(as_text(read_file(folder + "/mine", 100))));
      };
      const RestoredItems items =
          manager.restore_items(step, {}, {.by_handler = {{"my.Handler", read}}});
      ASSERT_EQ(std::get<Tree>(items.at("default")), tree_of(step));
      ASSERT_EQ(std::get<JsonItem>(items.at("config")).text, std::to_string(step));
      ASSERT_EQ(std::any_cast<std::string>(std::get<CustomItem>(items.at("files")).value),
                std::to_string(step));
      ASSERT_EQ(manager.metrics(step), (Metrics{{"loss", 1.0 / static_cast<double>(step)}}));
    }
    ASSERT_THAT(steps, ::testing::Contains(3));
    if (steps.back() == 3) {
      ASSERT_THAT(steps, ::testing::ElementsAre(1, 2, 3));
    }
    if (is_done) {
      ASSERT_THAT(steps, ::testing::ElementsAre(2, 3, 4));
    }
  };
  return {"ItemsInPlace", options,
          [save](const std::string& root) {
            save(root, {1, 2, 3});
          },
          [save](const std::string& root) { save(root, {4}); }, check};
}

// What interrupted saves, removals and replacements have left is tidied up: step 3 gets its name
// back, and the others go.
inline RunScenario cleaning() {
  const CheckpointManagerOptions options = three_steps();
  const auto prepare = [options](const std::string& root) {
    namespace fs = std::filesystem;
    CheckpointManager manager(root, options);
    for (const std::int64_t step : {1, 2, 3}) save_step(manager, step);
    const std::string mark = ".orbax-checkpoint-tmp";
    for (const std::string& left : {"4" + mark, "5" + mark + "-removed"})
      fs::copy(root + "/2", root + "/" + left, fs::copy_options::recursive);
    fs::remove(root + "/4" + mark + "/default/manifest.ocdbt");
    fs::rename(root + "/3", root + "/3" + mark + "-old");
  };
  const auto work = [](const std::string& root) {
    for (const CleanedPath& cleaned : clean_leftovers(root))
      if (cleaned.outcome == CleanOutcome::kRefused || cleaned.outcome == CleanOutcome::kInUse)
        throw Error(Code::kIo, cleaned.path + ": " + cleaned.why);
  };
  const auto check = [options, work](const std::string& root, bool is_done) {
    if (is_done) {
      ASSERT_THAT(orbax::list_directory(root).folders, ::testing::ElementsAre("1", "2", "3"));
    }
    {
      CheckpointManager manager(root, options);
      const auto steps = whole_steps(manager);
      ASSERT_THAT(steps, ::testing::IsSupersetOf({1, 2}));
      ASSERT_LE(steps.size(), 3U);
    }
    work(root);
    CheckpointManager manager(root, options);
    ASSERT_THAT(whole_steps(manager), ::testing::ElementsAre(1, 2, 3));
    ASSERT_THAT(orbax::list_directory(root).folders, ::testing::ElementsAre("1", "2", "3"));
  };
  return {"Clean", options, prepare, work, check};
}

inline std::vector<RunScenario> run_scenarios() {
  return {async_saves(CommitProtocol::kAtomicRename),
          async_saves(CommitProtocol::kCommitMarker),
          several_items(),
          soft_deletes(),
          best_steps(),
          cleaning()};
}

// A directory as `prepare` makes it, to be copied before each run of `work`: that takes less time.
class PreparedRun {
 public:
  explicit PreparedRun(const RunScenario& scenario) { scenario.prepare(dir_ / "run"); }
  void copy_to(const std::string& root) const {
    std::filesystem::copy(dir_ / "run", root, std::filesystem::copy_options::recursive);
  }

 private:
  TempDir dir_ = TempDir::in_memory();
};

// The next manager goes on: its last steps are kept.
inline void check_next_manager(const RunScenario& scenario, const std::string& root) {
  CheckpointManager manager(root, scenario.options);
  for (const std::int64_t step : {11, 12, 13})
    manager.save(step, PyTreeSaveArgs{tree_of(step)}, {.metrics = Metrics{{"loss", 0.01}}});
  manager.wait_until_finished();
  ASSERT_EQ(manager.latest_step(), 13);
  ASSERT_EQ(manager.all_steps().size(), *scenario.options.max_to_keep);
  whole_steps(manager);
}

}  // namespace cairn::testing
