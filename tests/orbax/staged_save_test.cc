// staged_save_test.cc -- background saves use the memory of their copies again, and give it back.
#include <cairn/open.h>
#include <cairn/orbax/checkpointer.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "tests/support/processes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::TempDir;

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;
constexpr std::int64_t kBytes = 96 * kMiB;

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Saves twice in the background, and changes the array while each save runs. Returns how much more
// memory is resident after the saves, and after close().
std::pair<std::int64_t, std::int64_t> added_memory(std::uint64_t limit) {
  const TempDir dir = TempDir::in_memory();
  PyTreeCheckpointHandlerOptions options;
  options.resources = {.threads = 2, .memory = limit};
  AsyncCheckpointer checkpointer(options);
  const auto memory = std::make_shared<Buffer>(kBytes);
  std::memset(memory->data(), 1, kBytes);
  const Tree tree{{"x", Array(DType::kUint8, 1, {kBytes}, memory, memory->data())}};
  checkpointer.save(dir / "small", {.item = Tree{{"x", std::int64_t{1}}}});
  checkpointer.wait_until_finished();
  const std::int64_t before = resident_bytes();
  for (const int value : {1, 2, 3}) {
    const std::string path = dir / std::to_string(value);
    checkpointer.save(path, {.item = tree});
    std::memset(memory->data(), value + 1, kBytes);
    checkpointer.wait_until_finished();
    const Tree saved = load(path);
    const ByteView bytes = saved.find("x")->array()->bytes();
    EXPECT_EQ(bytes.front(), std::byte(value));  // and the others are equal to the first
    EXPECT_EQ(std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1), 0);
  }
  const std::int64_t saved = resident_bytes() - before;
  checkpointer.close();
  return {saved, resident_bytes() - before};
}

// A sanitizer's own memory counts as resident, so the plain build checks the limits.
TEST(StagedSave, KeepsTheMemoryForTheNextSaveUntilItIsClosed) {
  const auto [saved, closed] = added_memory(256 * kMiB);
  if (testing::kSanitized) return;
  EXPECT_GT(saved, kBytes - 8 * kMiB);
  EXPECT_LT(saved, 2 * kBytes - 8 * kMiB);
  EXPECT_LT(closed, kBytes / 2);
}

TEST(StagedSave, KeepsNoMoreThanTheMemoryLimit) {
  const std::int64_t saved = added_memory(64 * kMiB).first;
  if (testing::kSanitized) return;
  EXPECT_LT(saved, kBytes / 2);
}

// The most memory that was resident at once while `work` ran, beyond what was before.
std::int64_t peak_added(const std::function<void()>& work) {
  const std::int64_t before = resident_bytes();
  std::atomic<bool> ends = false;
  std::int64_t most = 0;
  std::thread watcher([&] {
    while (!ends) {
      most = std::max(most, resident_bytes());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  work();
  ends = true;
  watcher.join();
  return most - before;
}

// The files of the item exist and are complete when save() returns if it has copied nothing.
class CopyLimit : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Copies, CopyLimit, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Within" : "Beyond"; });

TEST_P(CopyLimit, OfABackgroundSave) {
  const TempDir dir;  // on a disk: memory for files would count
  const bool copies = GetParam();
  std::atomic<int> not_copied = 0;
  PyTreeCheckpointHandlerOptions options;
  options.resources = {.threads = 2, .memory = 16 * kMiB};
  options.compression = Compression::kNone;
  options.background_copy_bytes = copies ? kBytes : kBytes - 1;
  options.observer = [&](const Event& event) { not_copied += event.name == "save.not_copied"; };
  const auto memory = std::make_shared<Buffer>(kBytes);
  std::memset(memory->data(), 1, kBytes);
  const Tree tree{{"x", Array(DType::kUint8, 1, {kBytes}, memory, memory->data())}, {"n", 3}};
  AsyncCheckpointer checkpointer(options);
  PyTreeCheckpointHandler handler(options);
  const std::int64_t added = peak_added([&] {
    const PyTreeSaveArgs args{tree};
    checkpointer.save(dir / "ckpt", args);
    std::memset(memory->data(), 2, kBytes);
    checkpointer.wait_until_finished();
    std::memset(memory->data(), 1, kBytes);
    const auto written = handler.async_save(dir / "item", args);
    std::memset(memory->data(), 2, kBytes);
    for (const auto& future : written) future.get();
    handler.finalize(dir / "item");
  });
  EXPECT_EQ(not_copied, copies ? 0 : 2);
  if (!testing::kSanitized) {
    EXPECT_EQ(added > kBytes / 2, copies) << added;
  }
  for (const char* name : {"ckpt", "item"}) {
    const Tree saved = load(dir / name);
    const ByteView bytes = saved.find("x")->array()->bytes();
    EXPECT_EQ(bytes.front(), std::byte(1)) << name;
    EXPECT_EQ(std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1), 0) << name;
  }
}

// One of two processes has more than it may copy. Both save two items, and none waits in vain.
TEST(CopyLimitOfJobs, OfOneOfSeveralProcesses) {
  const TempDir dir = TempDir::in_memory();
  const auto errors =
      testing::run_as_processes(2, [&](const std::shared_ptr<Coordinator>& coordinator) {
        PyTreeCheckpointHandlerOptions options;
        options.multiprocessing_options.coordinator = coordinator;
        options.multiprocessing_options.timeout = std::chrono::seconds(20);
        options.multiprocessing_options.write_timeout = std::chrono::seconds(20);
        if (coordinator->process_index() == 1) options.background_copy_bytes = 10;
        AsyncCheckpointer checkpointer(options);
        const PyTreeSaveArgs tree{Tree{{"x", Array::from<float>({1, 2, 3}, {3})}}};
        checkpointer.save_items(dir / "ckpt", {{"a", tree}, {"b", tree}});
        checkpointer.close();
      });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
  const RestoredItems items = Checkpointer().restore_items(dir / "ckpt");
  for (const char* name : {"a", "b"})
    EXPECT_EQ(std::get<Tree>(items.at(name)).find("x")->array()->as<float>()[2], 3.0F);
}

}  // namespace
}  // namespace cairn::orbax
