// reuse_fault_test.cc -- every system call that changes files fails in turn, and a kill comes at
// every one, while a step is saved that shares files with the one before: the steps before stay as
// they are, the new one is whole or absent, and a link that the system refuses is no error.
#include <cairn/checkpoint_manager.h>
#include <cairn/inspect.h>
#include <cairn/open.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/orbax/reuse/reuse_support.h"
#include "tests/support/fail_at.h"
#include "tests/support/kill_at.h"
#include "tests/support/processes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::Ended;
using cairn::testing::Faulted;
using cairn::testing::noise;
using cairn::testing::recorded_calls;
using cairn::testing::run_and_fail_at;
using cairn::testing::run_and_kill_at;
using cairn::testing::TempDir;
using ::testing::Contains;
using ::testing::Not;

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
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(ENOSPC, EXDEV, EIO, EACCES)));

std::vector<std::string> synced_files(const std::vector<std::string>& calls) {
  std::vector<std::string> synced;
  for (const std::string& call : calls)
    if (call.starts_with("fsync(")) synced.push_back(call.substr(call.rfind('/') + 1));
  return synced;
}

// The names of the data files that two steps share, with the ')' of a recorded call.
std::vector<std::string> shared_names(const std::string& root, int a, int b) {
  const auto files = testing::inodes_below(root + "/" + std::to_string(a));
  std::vector<std::string> names;
  for (const auto& [path, inode] : testing::inodes_below(root + "/" + std::to_string(b)))
    if (const auto found = files.find(path); found != files.end() && found->second == inode)
      names.push_back(path.substr(path.rfind('/') + 1) + ")");
  return names;
}

// Only the process that has synced a shared file knows that it is synced.
TEST(ReuseSync, FilesOfAnotherProcessAreSyncedAgain) {
  for (const bool knows : {true, false}) {
    const TempDir dir = TempDir::in_memory();
    const std::string root = dir / "run";
    CheckpointManager first(root, options(true));
    save(first, 1);
    const auto calls = recorded_calls([&] {
      CheckpointManager second(root, options(true));
      save(knows ? first : second, 2);
    });
    const auto names = shared_names(root, 1, 2);
    ASSERT_FALSE(names.empty());
    for (const std::string& name : names) {
      if (knows)
        EXPECT_THAT(synced_files(calls), Not(Contains(name)));
      else
        EXPECT_THAT(synced_files(calls), Contains(name));
    }
    EXPECT_EQ(check_steps(root, true), 2);
  }
}

// A backup links all files while the step is saved. The files are new, so they are synced.
TEST(ReuseSync, FilesThatSomebodyLinksMeanwhileAreSynced) {
  const TempDir dir = TempDir::in_memory();
  const std::string root = dir / "run";
  const auto calls = recorded_calls([&] {
    CheckpointManagerOptions with = options(true);
    with.handler.observer = [&](const Event& event) {
      if (event.name != "save.item_written") return;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
        if (entry.is_regular_file())
          std::filesystem::create_hard_link(entry.path(),
                                            dir / ("backup." + entry.path().filename().string()));
    };
    CheckpointManager manager(root, with);
    save(manager, 1);
  });
  int data_files = 0;
  for (const auto& [path, inode] : testing::inodes_below(root + "/1/default/d")) {
    ++data_files;
    EXPECT_TRUE(std::filesystem::exists(dir / ("backup." + path)));
    EXPECT_THAT(synced_files(calls), Contains(path + ")"));
  }
  EXPECT_GE(data_files, 1);
}

// Two processes, which are threads, save an array that is split over them, each chunk a file.
void save_together(const std::string& root, std::int64_t step) {
  const auto errors = testing::run_as_processes(2, [&](const auto& coordinator) {
    CheckpointManagerOptions with = options(false);
    with.handler.multiprocessing_options.coordinator = coordinator;
    CheckpointManager manager(root, with);
    const NamedSharding sharding{make_mesh({2}, {"x"}), {{"x"}}};
    const std::vector<std::int64_t> mine{static_cast<std::int64_t>(coordinator->process_index())};
    const Tree x = noise(2000, 1);
    const auto part = ShardedArray::from_array(*x.array(), sharding, mine);
    manager.save(step, PyTreeSaveArgs{Tree{{"x", Tree(CustomLeaf::of(part))}}});
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
}

// On some file systems, only the process that has made a name can sync it. The primary syncs
// everything once more.
TEST(ReuseSync, EachProcessSyncsWhatItShares) {
  const TempDir dir = TempDir::in_memory();
  const std::string root = dir / "run";
  save_together(root, 1);
  const auto calls = recorded_calls([&] { save_together(root, 2); });
  for (const std::string chunk : {"0", "1"}) {
    ASSERT_EQ(std::filesystem::hard_link_count(root + "/1/default/x/" + chunk), 2U);
    EXPECT_EQ(std::ranges::count_if(calls,
                                    [&](const std::string& call) {
                                      return call.starts_with("fsync(") &&
                                             call.ends_with("/default/x/" + chunk + ")");
                                    }),
              2)
        << chunk;
  }
}

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
