// stopped_maintenance_test.cc -- what prune_steps() and clean_leftovers() leave when they are asked
// to stop.
#include <cairn/base/cancellation.h>
#include <cairn/convert.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>
#include <cairn/kvstore/memory_names.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/steps.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/orbax/manager/store_run.h"
#include "tests/support/faulty_store.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using testing::FailsWith;
using ::testing::IsEmpty;
using testing::make_unfinished;
using ::testing::SizeIs;
using testing::TempDir;
using testing::upload_run;

constexpr std::int64_t kSteps = 4;

// Asks to stop at a request, which fails then, as do all later ones.
class StoppingStore final : public testing::ForwardingStore {
 public:
  StoppingStore(StorePtr base, std::stop_source stop, int requests_left)
      : ForwardingStore(std::move(base)), stop_(std::move(stop)), left_(requests_left) {}
  std::vector<ListEntry> list(std::string_view prefix) const override {
    count();
    return ForwardingStore::list(prefix);
  }

 protected:
  [[nodiscard]] Target find(std::string_view key) const override {
    count();
    return ForwardingStore::find(key);
  }

 private:
  void count() const {
    if (left_-- == 0) stop_.request_stop();
    throw_if_cancelled();
  }

  mutable std::stop_source stop_;
  mutable std::atomic<int> left_;
};

StorePtr copy_of(const std::string& url) {
  StorePtr copy = make_memory_store();
  const StorePtr from = open_store(url);
  for (const ListEntry& entry : from->list("")) copy->write(entry.key, *from->read(entry.key, {}));
  return copy;
}

// Throws if a step is neither whole nor gone.
std::vector<std::int64_t> whole_steps(const std::string& run) {
  std::vector<std::int64_t> steps;
  for (const StepRecord& record : read_steps(run)) {
    EXPECT_TRUE(record.complete) << record.path << ": " << record.reason;
    EXPECT_EQ(load(run, {.step = record.step}), (Tree{{"x", record.step}}));
    steps.push_back(record.step);
  }
  return steps;
}

// Calls work(URL, a token that asks to stop at the request number i) for i = 0, 1, ... on a copy of
// the store each, until it ends without a request to stop. Then check(URL, whether it was stopped).
template <class Work, class Check>
void stop_at_each_request(const std::string& url, Work work, Check check) {
  const std::string name = "stopped_maintenance_copy";
  bool is_stopped = true;
  for (int i = 0; is_stopped; ++i) {
    SCOPED_TRACE(i);
    const StorePtr copy = copy_of(url);
    const std::stop_source stop;
    name_memory_store(name, std::make_shared<StoppingStore>(copy, stop, i));
    const auto done = try_call([&] { return work("memory://" + name, stop.get_token()), true; });
    is_stopped = stop.stop_requested();
    EXPECT_EQ(done.ok(), !is_stopped);
    if (!done) {
      EXPECT_EQ(done.error().code(), Code::kCancelled) << done.error().message();
    }
    name_memory_store(name, copy);
    check("memory://" + name, is_stopped);
    ASSERT_LT(i, 2000);
  }
}

TEST(StoppedMaintenance, APruneInAStoreLeavesStepsThatAreWholeOrGone) {
  const std::string url = "memory://stopped_maintenance/pruned";
  upload_run(url, kSteps);
  std::size_t most = 0;  // steps that a stopped call has left
  stop_at_each_request(
      url,
      [](const std::string& copy, std::stop_token cancel) {
        (void)prune_steps(copy, {.keep_last = 2, .cancel = std::move(cancel)});
      },
      [&](const std::string& copy, bool is_stopped) {
        const auto left = clean_leftovers(copy);
        EXPECT_LE(left.size(), is_stopped ? 1U : 0U);
        for (const CleanedPath& cleaned : left)
          EXPECT_EQ(cleaned.outcome, CleanOutcome::kRemoved) << cleaned.why;
        const auto steps = whole_steps(copy);
        ASSERT_GE(steps.size(), 2U);
        EXPECT_EQ(steps.back(), kSteps);
        if (!is_stopped) {
          EXPECT_THAT(steps, SizeIs(2));
        } else {
          most = std::max(most, steps.size());
        }
      });
  EXPECT_EQ(most, static_cast<std::size_t>(kSteps));
}

TEST(StoppedMaintenance, ACleanInAStoreLeavesLeftovers) {
  const std::string url = "memory://stopped_maintenance/cleaned";
  upload_run(url, kSteps);
  for (const char* step : {"/2", "/3"}) make_unfinished(url + step);
  stop_at_each_request(
      url,
      [](const std::string& copy, std::stop_token cancel) {
        (void)clean_leftovers(copy, {.cancel = std::move(cancel)});
      },
      [](const std::string& copy, bool is_stopped) {
        for (const CleanedPath& cleaned : clean_leftovers(copy)) {
          EXPECT_TRUE(is_stopped);
          EXPECT_EQ(cleaned.outcome, CleanOutcome::kRemoved) << cleaned.why;
        }
        EXPECT_THAT(whole_steps(copy), ::testing::ElementsAre(1, 4));
      });
}

// A directory with the steps 1 to `last`.
void save_run(const std::string& run, std::int64_t last) {
  for (std::int64_t step = 1; step <= last; ++step)
    save(run + "/" + std::to_string(step), Tree{{"x", step}});
}

TEST(StoppedMaintenance, APruneOfAFolderLeavesStepsThatAreWholeOrGone) {
  constexpr std::int64_t kMany = 30;
  const TempDir dir;
  save_run(dir / "run", kMany);
  std::stop_source stop;
  std::thread other([&] {
    while (file_exists(dir / "run/1")) std::this_thread::yield();
    stop.request_stop();
  });
  const auto pruned = try_call(
      [&] { return prune_steps(dir / "run", {.keep_last = 1, .cancel = stop.get_token()}); });
  other.join();
  if (!pruned) {
    EXPECT_EQ(pruned.error().code(), Code::kCancelled);
  }
  EXPECT_THAT(clean_leftovers(dir / "run"), IsEmpty());
  EXPECT_EQ(whole_steps(dir / "run").back(), kMany);
  // A request before the call changes nothing.
  const std::size_t before = read_steps(dir / "run").size();
  EXPECT_THAT([&] { (void)prune_steps(dir / "run", {.keep_last = 1, .cancel = stop.get_token()}); },
              FailsWith(Code::kCancelled, "asked to stop"));
  EXPECT_THAT(read_steps(dir / "run"), SizeIs(before));
}

// Asks a clean_leftovers() to stop at many moments, and calls check() after each of them. prepare()
// makes the leftover again if the clean had ended.
template <class Prepare, class Check>
void stop_cleans_of(const std::string& folder, Prepare prepare, Check check) {
  int stopped = 0;
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    prepare();
    std::stop_source stop;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(250) * i);
      stop.request_stop();
    });
    const auto cleaned =
        try_call([&] { return clean_leftovers(folder, {.cancel = stop.get_token()}); });
    other.join();
    if (!cleaned) {
      EXPECT_EQ(cleaned.error().code(), Code::kCancelled) << cleaned.error().message();
    }
    stopped += cleaned ? 0 : 1;
    check();
  }
  EXPECT_GT(stopped, 0);
}

Tree large() {
  constexpr std::int64_t kCount = 4 << 20;  // 16 MiB each
  const std::vector<float> values(kCount, 1);
  return Tree{{"v", Array::from<float>(values, {kCount})},
              {"w", Array::from<float>(values, {kCount})}};
}

// Its verification, which is stopped, does not make it a leftover to remove.
TEST(StoppedMaintenance, ACleanKeepsACheckpointThatLacksItsNameOnly) {
  const TempDir dir = TempDir::in_memory();
  save(dir / "c", large());
  ASSERT_TRUE(file_exists(dir / "c/commit_success.txt"));
  const std::string left = dir / "c.orbax-checkpoint-tmp";
  stop_cleans_of(
      dir.path(),
      [&] {
        if (file_exists(dir / "c")) fs::rename(dir / "c", left);
      },
      [&] { EXPECT_TRUE(file_exists(dir / "c") != file_exists(left)); });
  (void)clean_leftovers(dir.path());
  EXPECT_EQ(load(dir / "c"), large());
}

TEST(StoppedMaintenance, ACleanKeepsTheIndexOfASet) {
  const TempDir dir = TempDir::in_memory();
  const std::string index = dir / "m.safetensors.index.json";
  const std::string left = temporary_name(index, "1a");
  save(dir / "m", large());
  convert(*open(dir / "m"), dir / "m.safetensors",
          {.safetensors = {.max_shard_bytes = 17U << 20U}});
  ASSERT_TRUE(file_exists(index));
  stop_cleans_of(
      dir.path(),
      [&] {
        if (file_exists(index)) fs::rename(index, left);
      },
      [&] { EXPECT_TRUE(file_exists(index) != file_exists(left)); });
  (void)clean_leftovers(dir.path());
  EXPECT_EQ(load(index), large());
}

}  // namespace
}  // namespace cairn
