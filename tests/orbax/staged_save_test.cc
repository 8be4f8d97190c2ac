// staged_save_test.cc -- background saves use the memory of their copies again, and give it back.
#include <cairn/checkpointer.h>
#include <cairn/open.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

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

}  // namespace
}  // namespace cairn::orbax
