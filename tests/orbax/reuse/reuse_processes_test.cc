// reuse_processes_test.cc -- several processes, which are threads here, save steps that share the
// files of what did not change: what each shares, that every step is whole without the others, and
// that nothing damaged is ever shared.
#include <cairn/checkpoint_manager.h>
#include <cairn/inspect.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/steps.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/orbax/reuse/reuse_support.h"
#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

namespace fs = std::filesystem;
using cairn::testing::bytes_read;
using cairn::testing::inodes_below;
using cairn::testing::noise;
using cairn::testing::Report;
using cairn::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Elements: 12 MiB, and 6 of each of two.
constexpr std::int64_t kLargeSize = std::int64_t{3} << 20U;
constexpr std::int64_t kSmallSize = 30'000;

struct JobLayout {
  const char* name;
  bool ocdbt, zarr3, async, apart;  // apart: each process has a disk of its own
};

// The process's part of an array that is split over the processes' devices, one each.
Tree part_of(const Tree& whole, std::size_t process, std::size_t count) {
  const Array& array = *whole.array();
  const auto devices = static_cast<std::int64_t>(count);
  const NamedSharding sharding{make_mesh({devices}, {"x"}), {{"x"}}};
  const std::vector<std::int64_t> mine{static_cast<std::int64_t>(process)};
  return Tree(CustomLeaf::of(ShardedArray::from_array(array, sharding, mine)));
}

// A frozen part, and one that each step changes.
Tree job_model(std::uint64_t step) {
  return Tree{{"frozen", noise(kLargeSize, 1)},
              {"host", noise(kLargeSize / 2, 2)},
              {"x", noise(kSmallSize, 100 + step)}};
}
Tree held(std::uint64_t step, std::size_t process, std::size_t count) {
  const Tree whole = job_model(step);
  return Tree{{"frozen", part_of(whole.at("frozen"), process, count)},
              {"host", whole.at("host")},
              {"x", part_of(whole.at("x"), process, count)}};
}

// What a single process restores.
Tree whole(const std::string& step) {
  return map_leaves(Checkpointer().restore(step + "/default"),
                    [](const KeyPath&, const Tree& leaf) {
                      const auto* array = leaf.custom<ShardedArray>();
                      return array != nullptr ? Tree(gather_shards(*array)) : leaf;
                    });
}

struct Process {
  std::size_t index, count;
  std::shared_ptr<Coordinator> coordinator;
  Report report = {};
};

CheckpointManagerOptions options_for(const JobLayout& layout, Process& process) {
  CheckpointManagerOptions options{.enable_async_checkpointing = layout.async};
  options.handler.reuse = Reuse::kUnchanged;
  options.handler.use_ocdbt = layout.ocdbt;
  options.handler.use_zarr3 = layout.zarr3;
  options.handler.observer = process.report.observer();
  options.handler.resources.threads = 1;
  options.handler.multiprocessing_options.coordinator = process.coordinator;
  options.handler.multiprocessing_options.timeout = std::chrono::seconds(60);
  if (layout.apart) options.handler.multiprocessing_options.primary_host.reset();
  return options;
}

void run(std::size_t count, const std::function<void(Process&)>& work) {
  const auto errors = testing::run_as_processes(count, [&](const auto& coordinator) {
    Process process{coordinator->process_index(), count, coordinator};
    work(process);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
}

void save_step(CheckpointManager& manager, Process& process, std::int64_t step) {
  manager.save(
      step, PyTreeSaveArgs{held(static_cast<std::uint64_t>(step), process.index, process.count)});
  manager.wait_until_finished();
}

class ReuseProcesses : public ::testing::TestWithParam<JobLayout> {
 protected:
  [[nodiscard]] std::string step(std::int64_t number) const {
    return root_ + "/" + std::to_string(number);
  }
  TempDir dir_ = TempDir::in_memory();
  std::string root_ = dir_ / "run";
};

TEST_P(ReuseProcesses, EachStepIsWholeWithoutTheOthers) {
  run(2, [&](Process& process) {
    CheckpointManager manager(root_, options_for(GetParam(), process));
    for (const std::int64_t number : {1, 2, 3}) {
      save_step(manager, process, number);
      // The primary writes the host's array, too.
      EXPECT_EQ(process.report.values, number == 1 ? 0 : process.index == 0 ? 2 : 1);
      EXPECT_THAT(process.report.refusals, IsEmpty());
    }
  });
  const auto frozen = inodes_below(step(3));
  const auto first = inodes_below(step(1));
  std::size_t shared = 0;
  for (const auto& [name, inode] : frozen)
    shared += first.contains(name) && first.at(name) == inode;
  EXPECT_EQ(shared, 3U);  // also by name: each process keeps its files in its folder
  for (const StepRecord& record : read_steps(root_))
    EXPECT_LT(record.unique_nbytes, std::uint64_t{1} << 20U) << record.step;
  for (const std::int64_t number : {1, 2, 3}) {
    const std::string kept = dir_ / ("kept" + std::to_string(number));
    fs::copy(step(number), kept, fs::copy_options::recursive);
  }
  fs::remove_all(root_);
  for (const std::int64_t number : {1, 2, 3}) {
    const std::string kept = dir_ / ("kept" + std::to_string(number));
    EXPECT_EQ(whole(kept), job_model(static_cast<std::uint64_t>(number)));
    EXPECT_FALSE(verify(kept).damaged());
  }
}

// One saves what two have saved, and the other way round; the second run knows nothing.
TEST_P(ReuseProcesses, AnotherJobSharesToo) {
  for (const auto& [first, second] : {std::pair<std::size_t, std::size_t>{2, 1}, {1, 2}, {2, 2}}) {
    const TempDir dir = TempDir::in_memory();
    std::atomic<std::int64_t> values = 0;
    run(first, [&](Process& process) {
      CheckpointManager manager(dir / "run", options_for(GetParam(), process));
      save_step(manager, process, 1);
    });
    run(second, [&](Process& process) {
      CheckpointManager manager(dir / "run", options_for(GetParam(), process));
      save_step(manager, process, 2);
      values += process.report.values;
    });
    // The pieces of the frozen array are others where the number of processes is another.
    EXPECT_EQ(values, first == second ? 3 : 1) << first << " " << second;
    fs::remove_all(dir / "run/1");
    EXPECT_EQ(whole(dir / "run/2"), job_model(2));
    EXPECT_FALSE(verify(dir / "run").damaged());
  }
}

TEST_P(ReuseProcesses, NothingDamagedIsShared) {
  run(2, [&](Process& process) {
    CheckpointManager manager(root_, options_for(GetParam(), process));
    save_step(manager, process, 1);
  });
  int flipped = 0;
  for (const auto& [name, inode] : inodes_below(step(1) + "/default")) {
    const std::string file = step(1) + "/default/" + name;
    if (fs::file_size(file) < std::uintmax_t{4} << 20U) continue;
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(4'000'000);
    const int byte = stream.peek();
    stream.put(static_cast<char>(byte ^ 0x08));
    ++flipped;
  }
  EXPECT_EQ(flipped, 3);
  run(2, [&](Process& process) {
    CheckpointManager manager(root_, options_for(GetParam(), process));
    save_step(manager, process, 2);
    EXPECT_EQ(process.report.values, 0);
  });
  fs::remove_all(step(1));
  EXPECT_EQ(whole(step(2)), job_model(2));
  EXPECT_FALSE(verify(root_).damaged());
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReuseProcesses,
                         ::testing::Values(JobLayout{"ocdbt_zarr2", true, false, false, false},
                                           JobLayout{"ocdbt_zarr3_async", true, true, true, false},
                                           JobLayout{"folders_zarr2_async", false, false, true,
                                                     false},
                                           JobLayout{"folders_zarr3", false, true, false, false}),
                         [](const auto& layout) { return layout.param.name; });

// Each process has a directory of its own, and finds there what it has saved itself.
TEST(ReuseOfProcesses, EachOnADiskOfItsOwn) {
  const TempDir dir = TempDir::in_memory();
  run(2, [&](Process& process) {
    const std::string root = dir / std::to_string(process.index);
    CheckpointManager manager(root, options_for({"", true, false, false, true}, process));
    const Tree tree{{"x", noise(kLargeSize, process.index)}};
    for (const std::int64_t number : {1, 2}) {
      manager.save(number, PyTreeSaveArgs{tree});
      EXPECT_EQ(process.report.values, number - 1);
    }
    fs::remove_all(root + "/1");
    EXPECT_EQ(manager.restore(), tree);
  });
}

TEST(ReuseOfProcesses, NobodyReadsWhatItHasSaved) {
  const TempDir dir = TempDir::in_memory();
  std::int64_t before = 0;
  run(2, [&](Process& process) {
    CheckpointManager manager(dir / "run", options_for({"", true, false, false, false}, process));
    for (const std::int64_t number : {1, 2, 3}) {
      if (number == 2 && process.index == 0) before = bytes_read();
      save_step(manager, process, number);
    }
  });
  EXPECT_LT(bytes_read() - before, std::int64_t{2} << 20U);
}

TEST(ReuseOfProcesses, DifferentSourcesAreRefused) {
  const TempDir dir = TempDir::in_memory();
  const auto errors = testing::run_as_processes(2, [&](const auto& coordinator) {
    Process process{coordinator->process_index(), 2, coordinator};
    const auto options = options_for({"", true, false, false, false}, process).handler;
    Checkpointer(options).save(dir / "x", {.item = held(1, process.index, 2),
                                           .reuse_from = dir / (process.index == 0 ? "a" : "b")});
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kInvalidArgument);
    EXPECT_THAT(error->message(), HasSubstr("sharing with " + dir / "a"));
  }
  EXPECT_FALSE(fs::exists(dir / "x"));
}

}  // namespace
}  // namespace cairn::orbax
