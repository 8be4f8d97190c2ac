// compact_test.cc -- what compaction keeps, removes, and refuses.
#include <cairn/base/cancellation.h>
#include <cairn/ocdbt/read/versions.h>
#include <cairn/ocdbt/write/compact.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "tests/ocdbt/support.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::FailsWith;
using testing::contents;

using Items = std::map<std::string, std::string>;

void commit(const StorePtr& base, const Items& items, const WriterOptions& options = {}) {
  Writer writer(base, options);
  auto& stream = writer.stream();
  for (const auto& [key, value] : items) stream.write(key, as_bytes(value));
  writer.commit();
}

std::vector<std::string> keys(const KvStore& store, std::string_view prefix = {}) {
  std::vector<std::string> names;
  for (const auto& entry : store.list(prefix)) names.push_back(entry.key);
  return names;
}

TEST(Compact, KeepsTheNewestVersionInTwoFiles) {
  const StorePtr base = make_memory_store();
  Items items;
  for (int i = 0; i < 50; ++i) {
    const Items some = {
        {"k" + std::to_string(i % 20), std::string(static_cast<std::size_t>(i) * 10, 'v')}};
    commit(base, some);
    for (const auto& [key, value] : some) items[key] = value;
  }
  std::uint64_t bytes = 0;
  for (const auto& entry : base->list("")) bytes += entry.size;
  const Compacted done = compact(base, {});
  EXPECT_EQ(done.version.generation, 51U);
  EXPECT_EQ(done.version.num_keys, 20U);
  EXPECT_EQ(done.files_before, 51U);
  EXPECT_EQ(done.bytes_before, bytes);
  EXPECT_EQ(done.files_after, 2U);
  EXPECT_LT(done.bytes_after, bytes);
  EXPECT_EQ(base->list("").size(), 2U);
  EXPECT_EQ(contents(*open_ocdbt(base)), items);
  EXPECT_THAT([&] { open_ocdbt(base, {.generation = 50, .commit_time_ns = {}}); },
              FailsWith(Code::kNotFound));
  EXPECT_EQ(compact(base, {}).version.generation, 52U) << "once more changes nothing but the names";
  EXPECT_EQ(contents(*open_ocdbt(base)), items);
}

TEST(Compact, ReadsEveryGoldenDatabaseTheSame) {
  for (const auto& name : testing::golden_names()) {
    SCOPED_TRACE(name);
    const StorePtr base = make_memory_store();
    for (const auto& [key, value] : contents(*open_file_store(testing::golden_path(name))))
      base->write(key, as_bytes(value));
    const Items before = contents(*open_ocdbt(base));
    if (name == "numbered_empty") {
      EXPECT_THAT([&] { compact(base, {}); }, FailsWith(Code::kNotFound));
      continue;
    }
    const auto info = read_database_info(*base);
    compact(base, {});
    EXPECT_EQ(contents(*open_ocdbt(base)), before);
    EXPECT_EQ(read_database_info(*base)->manifest.config, info->manifest.config);
    // What the root does not refer to, because all values are inline, is none of its business.
    EXPECT_EQ(keys(*base, "ocdbt.process_").empty(), name != "merged");
    commit(base, {{"next", "n"}});
    EXPECT_EQ(open_ocdbt(base)->list("").size(), before.size() + (before.contains("next") ? 0 : 1));
  }
}

TEST(Compact, KeepsOrphansUnlessToldThatNobodyWrites) {
  const StorePtr base = make_memory_store();
  commit(base, {{"a", std::string(500, 'v')}});
  const std::string orphan = "d/" + std::string(32, 'a');
  for (const std::string& key :
       {orphan, std::string("d/notes.txt"), std::string("else/") + std::string(32, 'a')})
    base->write(key, as_bytes("x"));
  compact(base, {});
  EXPECT_TRUE(base->size(orphan));
  const Compacted done = compact(base, {.orphans = Orphans::kRemove});
  EXPECT_EQ(done.files_before, 3U);
  EXPECT_FALSE(base->size(orphan));
  EXPECT_TRUE(base->size("d/notes.txt"));
  EXPECT_TRUE(base->size("else/" + std::string(32, 'a')));
}

TEST(Compact, KeepsAMergedDatabaseThatHoldsMore) {
  const StorePtr base = make_memory_store();
  commit(prefix_store(base, "p_0/"), {{"a", std::string(500, 'a')}});
  commit(prefix_store(base, "p_1/"), {{"b", std::string(500, 'b')}, {"c", std::string(500, 'c')}});
  {
    Writer writer(base, {});
    writer.copy_database("p_0/");
    writer.copy_database("p_1/");
    writer.stream().remove("c");
    writer.commit();
  }
  compact(base, {.orphans = Orphans::kRemove});
  EXPECT_TRUE(keys(*base, "p_0/").empty());
  EXPECT_EQ(contents(*open_ocdbt(prefix_store(base, "p_1/"))).size(), 2U);
  EXPECT_EQ(contents(*open_ocdbt(base)),
            (Items{{"a", std::string(500, 'a')}, {"b", std::string(500, 'b')}}));
}

TEST(Compact, RefusesADamagedDatabase) {
  const StorePtr base = make_memory_store();
  commit(base, {{"a", std::string(500, 'v')}});
  const std::string file = keys(*base, "d/").front();
  Bytes bytes = base->read(file, {}).value();
  bytes[510] ^= std::byte{1};
  base->write(file, bytes);
  const auto before = contents(*base);
  EXPECT_THAT([&] { compact(base, {}); },
              FailsWith(Code::kDataLoss, "Cairn does not compact a damaged database"));
  EXPECT_EQ(contents(*base), before);
  EXPECT_THAT([] { compact(make_memory_store(), {}); },
              FailsWith(Code::kNotFound, "no database to compact"));
}

// Of files that are not on this machine, no more is loaded at once than fits into memory, and
// little besides the values that are kept.
TEST(Compact, LoadsPartsOfTheFilesOfAStore) {
  class Counting final : public testing::ForwardingStore {
   public:
    using ForwardingStore::ForwardingStore;
    std::optional<SharedBytes> map(std::string_view key) const override {
      ADD_FAILURE() << key << " is read as a whole";
      return ForwardingStore::map(key);
    }
    bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
      largest = std::max<std::size_t>(largest, out.size());
      total += out.size();
      return ForwardingStore::read_into(key, offset, out);
    }
    mutable std::atomic<std::size_t> largest = 0;
    mutable std::atomic<std::size_t> total = 0;
  };
  constexpr std::size_t kMiB = std::size_t{1} << 20U;
  const StorePtr base = make_memory_store();
  Items items;
  for (int i = 0; i < 8; ++i)
    items["k" + std::to_string(10 + i)] = std::string(3 * kMiB + static_cast<std::size_t>(i), 'v');
  items["large"] = std::string(70 * kMiB, 'l');
  commit(base, items);
  Items fewer;
  Writer writer(base, {});
  std::size_t kept = 0;
  for (const auto& [key, value] : items) {
    if (key != "large" && key.back() % 2 == 0) {
      writer.stream().remove(key);
    } else {
      fewer[key] = value;
      kept += value.size();
    }
  }
  writer.commit();
  const auto store = std::make_shared<Counting>(base);
  EXPECT_EQ(compact(store, {}).version.num_keys, fewer.size());
  EXPECT_EQ(contents(*open_ocdbt(base)), fewer);
  EXPECT_LE(store->largest, 4 * kMiB);
  EXPECT_GE(store->total, kept);
  EXPECT_LE(store->total, kept + kMiB / 64) << "besides the values, only the tree is read";
}

TEST(Compact, TakesInWhatOthersCommitMeanwhile) {
  class Raced final : public testing::ForwardingStore {
   public:
    explicit Raced(StorePtr base) : ForwardingStore(base), base_(std::move(base)) {}
    bool replace_if(std::string_view key, std::optional<ByteView> expected,
                    ByteView value) override {
      if (races_-- > 0) commit(base_, {{"theirs", std::string(300, 't')}});
      return base_->replace_if(key, expected, value);
    }

   private:
    StorePtr base_;
    int races_ = 2;
  };
  const StorePtr base = make_memory_store();
  commit(base, {{"a", std::string(500, 'v')}});
  compact(std::make_shared<Raced>(base), {});
  EXPECT_EQ(contents(*open_ocdbt(base)),
            (Items{{"a", std::string(500, 'v')}, {"theirs", std::string(300, 't')}}));
  EXPECT_EQ(base->list("").size(), 2U);
}

// Asks the caller's work to stop when it calls the store for the nth time.
class StoppingStore final : public testing::ForwardingStore {
 public:
  StoppingStore(StorePtr base, int call) : ForwardingStore(std::move(base)), left_(call) {}
  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }
  [[nodiscard]] bool replaces() const { return replaces_; }  // whether the manifest was written

  std::optional<std::uint64_t> size(std::string_view key) const override {
    count();
    return ForwardingStore::size(key);
  }
  std::optional<SharedBytes> map(std::string_view key) const override {
    count();
    return ForwardingStore::map(key);
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    count();
    return ForwardingStore::read_into(key, offset, out);
  }
  std::vector<ListEntry> list(std::string_view prefix) const override {
    count();
    return ForwardingStore::list(prefix);
  }
  std::unique_ptr<Appender> append(std::string_view key) override {
    count();
    return ForwardingStore::append(key);
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    replaces_ = true;
    count();
    return ForwardingStore::replace_if(key, expected, value);
  }
  void remove(std::string_view key) override {
    count();
    ForwardingStore::remove(key);
  }

 private:
  void count() const {
    if (left_-- == 0) stop_.request_stop();
  }

  bool replaces_ = false;
  mutable std::atomic<int> left_;
  mutable std::stop_source stop_;
};

TEST(Compact, ACancellationLeavesTheOldStateOrTheNewOne) {
  const cairn::testing::TempDir dir;
  const Items items = {{"a", std::string(300'000, 'a')}, {"b", std::string(500'000, 'b')}};
  const WriterOptions small_files{.target_data_file_size = 200'000};
  for (const bool is_local : {true, false}) {
    int cancelled = 0;
    for (int call = 0;; ++call) {
      SCOPED_TRACE(std::to_string(call) + (is_local ? " local" : ""));
      ASSERT_LT(call, 100);
      const StorePtr base =
          is_local ? open_file_store(dir / std::to_string(call)) : make_memory_store();
      commit(base, items);
      const std::vector<std::string> before = keys(*base);
      const Bytes manifest = base->read("manifest.ocdbt", {}).value();
      const auto store = std::make_shared<StoppingStore>(base, call);
      const CancellationScope scope{Cancellation(store->token())};
      const auto done = try_call([&] { return compact(store, {.writer = small_files}); });
      const bool is_old = base->read("manifest.ocdbt", {}) == manifest;
      EXPECT_EQ(done.ok(), !is_old);
      EXPECT_EQ(contents(*open_ocdbt(base)), items);
      if (is_old) {
        ++cancelled;
        EXPECT_EQ(done.error().code(), Code::kCancelled) << done.error().what();
        if (!store->replaces()) {
          EXPECT_EQ(keys(*base), before) << "the new files are removed";
        }
      }
      if (!store->token().stop_requested()) break;
    }
    EXPECT_GE(cancelled, 4);
  }
}

TEST(Compact, CountsTheBytesThatItCopies) {
  const StorePtr base = make_memory_store();
  EXPECT_EQ(expected_copy(*base), 0U);
  commit(base, {{"a", std::string(500, 'a')}, {"b", std::string(3000, 'b')}, {"small", "s"}});
  EXPECT_EQ(expected_copy(*base), 3500U);
  Progress progress;
  (void)compact(base, {.progress = &progress});
  EXPECT_EQ(progress.done, 3500U);
  base->write("manifest.ocdbt", as_bytes("damaged"));
  EXPECT_EQ(expected_copy(*base), 0U);
}

}  // namespace
}  // namespace cairn::ocdbt
