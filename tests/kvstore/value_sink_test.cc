// value_sink_test.cc -- how many values a sink writes at once, and how much memory they take.
#include <cairn/base/executor.h>
#include <cairn/kvstore/upload_memory.h>
#include <cairn/kvstore/value_sink.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/faulty_store.h"

namespace cairn {
namespace {

using cairn::testing::ForwardingStore;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

// Counts the values that are written at once. Each waits until there are `awaited` of them.
class CountingStore final : public ForwardingStore {
 public:
  explicit CountingStore(int awaited) : ForwardingStore(make_memory_store()), awaited_(awaited) {}

  void write(std::string_view key, ByteView value) override {
    enter(value.size());
    ForwardingStore::write(key, value);
    leave(value.size());
  }
  std::unique_ptr<Appender> append(std::string_view /*key*/) override;

  void enter(std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++now_);
    most_bytes_ = std::max(most_bytes_, bytes_ += bytes);
    came_.notify_all();
    EXPECT_TRUE(came_.wait_for(lock, std::chrono::seconds(60), [&] { return most_ >= awaited_; }));
  }
  void leave(std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    --now_;
    bytes_ -= bytes;
  }
  void note_limit(std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    limits_.insert(bytes);
  }
  int most() const { return most_; }
  std::uint64_t most_bytes() const { return most_bytes_; }
  const std::set<std::uint64_t>& limits() const { return limits_; }

 private:
  const int awaited_;
  std::mutex mutex_;
  std::condition_variable came_;
  int now_ = 0, most_ = 0;
  std::uint64_t bytes_ = 0, most_bytes_ = 0;
  std::set<std::uint64_t> limits_;
};

// Holds what limit_memory() allows, and no value.
class CountingAppender final : public UploadAppender {
 public:
  explicit CountingAppender(CountingStore& store) : store_(store) {}
  void limit_memory(std::uint64_t bytes) override {
    limit_ = bytes;
    store_.note_limit(bytes);
  }
  void append(std::span<const ByteView> parts) override {
    for (const ByteView part : parts) size_ += part.size();
  }
  std::uint64_t size() const override { return size_; }
  void commit() override {
    store_.enter(std::min(size_, limit_));
    store_.leave(std::min(size_, limit_));
  }

 private:
  CountingStore& store_;
  std::uint64_t limit_ = 0;
  std::uint64_t size_ = 0;
};

std::unique_ptr<Appender> CountingStore::append(std::string_view /*key*/) {
  return std::make_unique<CountingAppender>(*this);
}

// Writes `count` values that consist of these pieces, with two workers.
void write_all(StoreSink& sink, std::size_t count, const std::vector<ByteView>& pieces) {
  Executor two(2);
  two.for_each(count, [&](std::size_t i) { sink.write("v" + std::to_string(i), pieces); });
}

TEST(StoreSink, WritesToAStoreWaitTogether) {
  const auto store = std::make_shared<CountingStore>(32);
  StoreSink sink(store, kMiB);
  EXPECT_TRUE(sink.waits());
  write_all(sink, 100, {as_bytes("value")});
  EXPECT_EQ(store->most(), 32);
  EXPECT_EQ(store->list("").size(), 100U);
}

TEST(StoreSink, OnThisMachineTheWorkersWriteAlone) {
  const auto store = std::make_shared<CountingStore>(2);
  StoreSink sink(store);
  EXPECT_FALSE(sink.waits());
  write_all(sink, 20, {as_bytes("value")});
  EXPECT_EQ(store->most(), 2);
}

TEST(StoreSink, CopiedValuesKeepToTheMemory) {
  const Bytes piece(5 * kMiB);
  const auto store = std::make_shared<CountingStore>(6);
  StoreSink sink(store, 64 * kMiB);
  write_all(sink, 20, {piece, piece});
  EXPECT_EQ(store->most(), 6);
  EXPECT_EQ(store->most_bytes(), 60 * kMiB);
}

TEST(StoreSink, LargeValuesShareTheMemory) {
  const Bytes piece(40 * kMiB);
  for (const std::uint64_t memory : {kMiB, 64 * kMiB, 100 * kMiB}) {
    const bool is_little = memory == kMiB;
    const auto store = std::make_shared<CountingStore>(is_little ? 1 : 2);
    StoreSink sink(store, memory);
    write_all(sink, 6, {piece});
    EXPECT_EQ(store->most(), is_little ? 1 : 2);
    EXPECT_THAT(store->limits(), ::testing::ElementsAre(std::max(memory / 2, 32 * kMiB)));
  }
}

TEST(StoreSink, ALargeValueTakesNoMoreMemoryThanItNeeds) {
  const auto store = std::make_shared<CountingStore>(1);
  StoreSink sink(store, 1024 * kMiB);
  const Bytes value(20 * kMiB);
  write_all(sink, 1, {value});
  EXPECT_THAT(store->limits(), ::testing::ElementsAre(36 * kMiB));
}

}  // namespace
}  // namespace cairn
