// store_save_test.cc -- checkpoints that are written to a store: what they hold, what a fault or a
// second writer at any request leaves, and what is replaced.
#include <cairn/cairn.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/kvstore/memory_names.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/commit/in_store.h>
#include <cairn/orbax/commit/pending_upload.h>
#include <cairn/orbax/open.h>
#include <cairn/storage/kvstore.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/faulty_store.h"
#include "tests/support/matchers.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::FaultyStore;
using cairn::testing::ForwardingStore;
using cairn::testing::TempDir;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A name that no other test uses.
std::string fresh_name() {
  static std::atomic<int> count{0};
  return "store_save_" + std::to_string(count++);
}

Array counted_array(std::int64_t length, std::int32_t first) {
  Array array = Array::allocate(DType::kInt32, {length});
  auto* values = reinterpret_cast<std::int32_t*>(array.mutable_view().data);
  for (std::int64_t i = 0; i < length; ++i) values[i] = first + static_cast<std::int32_t>(i);
  return array;
}

Tree run_tree(std::int32_t first) {
  return Tree(Tree::Dict{{"step", Tree(std::int64_t{first})},
                         {"name", Tree(std::string("run"))},
                         {"w", Tree(counted_array(1000, first))}});
}

// The first element of "w", after a check of all others.
std::int32_t first_value(const std::string& url) {
  const Tree tree = load(url);
  const Tree& item = tree.find("state") != nullptr ? *tree.find("state") : tree;
  const Array& w = *item.at("w").array();
  const auto* values = reinterpret_cast<const std::int32_t*>(w.view().data);
  EXPECT_TRUE(testing::same_array(w, counted_array(1000, values[0])));
  return values[0];
}

std::vector<std::string> stored_keys(const std::string& url) {
  std::vector<std::string> keys;
  for (const ListEntry& entry : open_store(url)->list("")) keys.push_back(entry.key);
  return keys;
}

// Counts the requests that a save sends, and remembers their order.
class WatchedStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::vector<std::string> written;
  std::vector<std::string> removed;

  void write(std::string_view key, ByteView value) override {
    ForwardingStore::write(key, value);
    const std::scoped_lock lock(mutex_);
    written.emplace_back(key);
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    const bool done = ForwardingStore::replace_if(key, expected, value);
    const std::scoped_lock lock(mutex_);
    if (done) written.emplace_back(key);
    return done;
  }
  void remove(std::string_view key) override {
    ForwardingStore::remove(key);
    const std::scoped_lock lock(mutex_);
    removed.emplace_back(key);
  }

 private:
  std::mutex mutex_;
};

TEST(StoreSave, IsReadBackInEveryLayout) {
  for (const bool use_ocdbt : {true, false}) {
    for (const bool use_zarr3 : {true, false}) {
      const std::string url = "memory://" + fresh_name() + "/run/1";
      save_orbax(url, run_tree(5), {.use_ocdbt = use_ocdbt, .use_zarr3 = use_zarr3});
      EXPECT_EQ(first_value(url), 5);
      EXPECT_EQ(verify(url).verdict(), Verdict::kGood) << use_ocdbt << use_zarr3;
      EXPECT_THAT(stored_keys(url), ::testing::Contains("commit_success.txt"));
    }
  }
}

TEST(StoreSave, HasTheFilesOfALocalSave) {
  const TempDir dir;
  const std::string url = "memory://" + fresh_name() + "/1";
  const SaveOptions options{.item = "state", .commit_protocol = CommitProtocol::kCommitMarker};
  save_orbax(dir / "1", run_tree(5), options);
  save_orbax(url, run_tree(5), options);
  const auto names = [](std::vector<std::string> keys) {
    std::multiset<std::string> out;
    for (std::string& key : keys) {
      const auto data = key.find("/d/");  // the names of data files are random
      out.insert(data == std::string::npos ? key : key.substr(0, data));
    }
    return out;
  };
  std::vector<std::string> local;
  for (const ListEntry& entry : open_file_store(dir / "1")->list("")) local.push_back(entry.key);
  EXPECT_EQ(names(stored_keys(url)), names(local));
}

TEST(StoreSave, WritesItsRecordFirstAndItsMarkerLast) {
  const std::string name = fresh_name();
  const auto store = std::make_shared<WatchedStore>(make_memory_store());
  name_memory_store(name, store);
  const std::string url = "memory://" + name + "/run/1";
  save_orbax(url, run_tree(1), {.item = "state"});
  ASSERT_GE(store->written.size(), 6U);
  EXPECT_EQ(store->written.front(), "run/1/_CHECKPOINT_METADATA");
  EXPECT_EQ(store->written.back(), "run/1/commit_success.txt");
  EXPECT_EQ(store->written[store->written.size() - 2], "run/1/_CHECKPOINT_METADATA");
  const auto marker = open_store(url)->read("commit_success.txt", {});
  EXPECT_EQ(as_text(*marker), "Checkpoint commit was successful to " + url);
  const auto item = open_store(url)->read("state/commit_success.txt", {});
  EXPECT_EQ(as_text(*item), "Checkpoint commit was successful to " + url + "/state");
  store->written.clear();
  save_orbax(url, run_tree(2), {.item = "state", .if_exists = IfExists::kReplace});
  EXPECT_EQ(store->removed.front(), "run/1/commit_success.txt");
  EXPECT_EQ(first_value(url), 2);
}

// Chunks and metadata of arrays in folders of their own are a request each. The requests wait
// together, whatever the number of worker threads.
TEST(StoreSave, FilesThatNeedNoOrderAreWrittenTogether) {
  constexpr int kArrays = 12, kAtOnce = 8;
  // Holds such files back until kAtOnce of them have come.
  class Gate final : public ForwardingStore {
   public:
    Gate(StorePtr base, std::string suffix)
        : ForwardingStore(std::move(base)), suffix_(std::move(suffix)) {}
    bool replace_if(std::string_view key, std::optional<ByteView> expected,
                    ByteView value) override {
      if (key.ends_with(suffix_)) {
        std::unique_lock lock(mutex_);
        ++come_;
        came_.notify_all();
        EXPECT_TRUE(
            came_.wait_for(lock, std::chrono::seconds(60), [&] { return come_ >= kAtOnce; }));
      }
      return ForwardingStore::replace_if(key, expected, value);
    }
    [[nodiscard]] int come() const { return come_; }

   private:
    std::string suffix_;
    std::mutex mutex_;
    std::condition_variable came_;
    int come_ = 0;
  };
  for (const auto& [suffix, length] : std::vector<std::pair<std::string, std::int64_t>>{
           {"/0", 40'000}, {"/0", 100}, {"/.zarray", 100}}) {
    Tree::Dict arrays;
    for (int i = 0; i < kArrays; ++i)
      arrays.emplace_back("w" + std::to_string(i), Tree(counted_array(length, i)));
    const std::string name = fresh_name();
    const auto store = std::make_shared<Gate>(make_memory_store(), suffix);
    name_memory_store(name, store);
    const std::string url = "memory://" + name + "/run/1";
    save_orbax(url, Tree(arrays), {.use_ocdbt = false, .resources = {.threads = 2}});
    EXPECT_EQ(store->come(), kArrays) << suffix << " " << length;
    EXPECT_EQ(verify(url).verdict(), Verdict::kGood);
  }
}

// After a fault at any request, a reader finds the old checkpoint, the new one, or none.
TEST(StoreSave, AFaultAtAnyRequestLeavesNothingThatLooksWhole) {
  for (const bool replaces : {false, true}) {
    for (const bool happens : {false, true}) {
      for (int operation = 0;; ++operation) {
        SCOPED_TRACE(std::to_string(operation) + (replaces ? " replacing" : "") +
                     (happens ? " happens" : ""));
        const std::string name = fresh_name();
        const std::string url = "memory://" + name + "/run/1";
        const StorePtr base = make_memory_store();
        name_memory_store(name, base);
        if (replaces) save_orbax(url, run_tree(1), {.item = "state"});
        const auto faulty = std::make_shared<FaultyStore>(
            base, cairn::testing::StoreFault{
                      .operation = operation, .lasts = true, .reads = true, .happens = happens});
        name_memory_store(name, faulty);
        const auto saved = try_call([&] {
          save_orbax(url, run_tree(2), {.item = "state", .if_exists = IfExists::kReplace});
          return true;
        });
        name_memory_store(name, base);
        const auto found = try_call([&] { return first_value(url); });
        if (found) {
          EXPECT_THAT(found.value(), AnyOf(1, 2));
        } else {
          EXPECT_THAT(found.error().code(),
                      AnyOf(Code::kNotFound, Code::kFailedPrecondition, Code::kInvalidArgument))
              << found.error().what();
        }
        if (saved) {
          EXPECT_EQ(found ? found.value() : 0, 2);
        }
        // The next save needs no help.
        save_orbax(url, run_tree(3), {.item = "state", .if_exists = IfExists::kReplace});
        EXPECT_EQ(first_value(url), 3);
        if (saved && !faulty->failed()) break;
        ASSERT_LT(operation, 200);
      }
    }
  }
}

// Another save begins at any request of the first: one of them is there in the end, whole.
TEST(StoreSave, OfTwoSavesOneWins) {
  class Interrupting final : public ForwardingStore {
   public:
    Interrupting(StorePtr base, int at, std::function<void()> other)
        : ForwardingStore(std::move(base)), at_(at), other_(std::move(other)) {}
    bool replace_if(std::string_view key, std::optional<ByteView> expected,
                    ByteView value) override {
      const std::scoped_lock lock(mutex_);  // no thread of this save goes on meanwhile
      if (count_++ == at_) other_();
      return ForwardingStore::replace_if(key, expected, value);
    }
    [[nodiscard]] bool interrupted() const { return count_ > at_; }

   private:
    std::mutex mutex_;
    int at_;
    int count_ = 0;
    std::function<void()> other_;
  };
  for (int at = 0;; ++at) {
    SCOPED_TRACE(at);
    const std::string name = fresh_name();
    const std::string url = "memory://" + name + "/run/1";
    const StorePtr base = make_memory_store();
    bool other_saved = false;
    const auto store = std::make_shared<Interrupting>(base, at, [&] {
      name_memory_store(name, base);
      other_saved = try_call([&] {
                      save_orbax(url, run_tree(2), {.if_exists = IfExists::kReplace});
                      return true;
                    }).ok();
    });
    name_memory_store(name, store);
    const auto first = try_call([&] {
      save_orbax(url, run_tree(1));
      return true;
    });
    name_memory_store(name, base);
    EXPECT_EQ(other_saved, store->interrupted());
    if (store->interrupted()) {
      ASSERT_FALSE(first.ok());
      EXPECT_EQ(first.error().code(), Code::kUnavailable) << first.error().what();
      EXPECT_THAT(first.error().what(), HasSubstr("another save"));
    }
    EXPECT_EQ(first_value(url), store->interrupted() ? 2 : 1);
    EXPECT_EQ(verify(url).verdict(), Verdict::kGood);
    if (!store->interrupted()) break;
  }
}

TEST(StoreSave, WhatEndsMeanwhileIsNotRemovedAsALeftover) {
  const std::string url = "memory://" + fresh_name() + "/run/1";
  const StorePtr store = open_store(url);
  store->write("_CHECKPOINT_METADATA",
               as_bytes(R"({"init_timestamp_nsecs": 5, "commit_timestamp_nsecs": null})"));
  const FolderPtr seen = StoreFolder::open(store, url);
  ASSERT_TRUE(is_unfinished(*seen));
  save_orbax(url, run_tree(1));
  EXPECT_THAT([&] { (void)claim_in_store(*store, "", *seen); }, FailsWith(Code::kUnavailable, ""));
  EXPECT_EQ(first_value(url), 1);
}

TEST(StoreSave, ReplacesOnlyWhatItMay) {
  const std::string url = "memory://" + fresh_name() + "/run/1";
  save_orbax(url, run_tree(1));
  EXPECT_THAT([&] { save_orbax(url, run_tree(2)); },
              FailsWith(Code::kAlreadyExists, "already exists"));
  EXPECT_EQ(first_value(url), 1);
  open_store(url)->write("notes/plan.md", as_bytes("mine"));
  EXPECT_THAT([&] { save_orbax(url, run_tree(2), {.if_exists = IfExists::kReplace}); },
              FailsWith(Code::kAlreadyExists, "notes"));
  EXPECT_EQ(first_value(url), 1);
  const std::string other = "memory://" + fresh_name() + "/folder";
  open_store(other)->write("data.csv", as_bytes("1,2"));
  EXPECT_THAT([&] { save_orbax(other, run_tree(2), {.if_exists = IfExists::kReplace}); },
              FailsWith(Code::kAlreadyExists, "without the files of a checkpoint"));
  EXPECT_THAT(stored_keys(other), ElementsAre("data.csv"));
}

TEST(StoreSave, RefusesURLsThatCannotHoldACheckpoint) {
  EXPECT_THAT([] { save_orbax("memory://" + fresh_name(), run_tree(1)); },
              FailsWith(Code::kInvalidArgument, "a bucket cannot be a checkpoint"));
  EXPECT_THAT([] { save_orbax("https://example.com/1", run_tree(1)); },
              FailsWith(Code::kUnimplemented, "can only be read"));
  EXPECT_THAT([] { save_orbax("hf://owner/name/1", run_tree(1)); },
              FailsWith(Code::kUnimplemented, "can only be read"));
  EXPECT_THAT([] { save_orbax("memory://x/1.orbax-checkpoint-tmp", run_tree(1)); },
              FailsWith(Code::kInvalidArgument, "reserved"));
}

TEST(StoreSave, CheckpointersSaveItems) {
  const std::string url = "memory://" + fresh_name() + "/run/1";
  Checkpointer checkpointer;
  const CheckpointItems items = {
      {"state", PyTreeSaveArgs{.item = run_tree(4)}},
      {"meta", JsonItem{.text = R"({"epoch": 3})"}},
      {"files", FilesItem{.handler = "my.Handler", .write = [](const std::string& directory) {
                            testing::put_file(directory + "/a/b.bin", as_bytes("bytes"));
                          }}}};
  checkpointer.save_items(url, items);
  EXPECT_EQ(as_text(*open_store(url)->read("files/a/b.bin", {})), "bytes");
  const RestoredItems restored = checkpointer.restore_items(url, {{"state", {}}, {"meta", {}}});
  EXPECT_EQ(restored.size(), 2U);
  AsyncCheckpointer later;
  later.save(url + "-later", {.item = run_tree(9)});
  later.wait_until_finished();
  EXPECT_EQ(first_value(url + "-later"), 9);
}

TEST(StoreSave, RemovesTheMarkerFirstAndTheRecordLast) {
  const std::string name = fresh_name();
  const auto store = std::make_shared<WatchedStore>(make_memory_store());
  name_memory_store(name, store);
  save_orbax("memory://" + name + "/run/1", run_tree(1), {.item = "state"});
  remove_in_store(*store, "run/1/",
                  *StoreFolder::open(prefix_store(store, "run/1/"), "memory://" + name + "/run/1"));
  EXPECT_EQ(store->removed.front(), "run/1/commit_success.txt");
  EXPECT_EQ(store->removed.back(), "run/1/_CHECKPOINT_METADATA");
  EXPECT_TRUE(store->list("").empty());
}

}  // namespace
}  // namespace cairn::orbax
