// The database as a store: lookups through trees built by hand, and what a damaged or hostile one
// does.
#include <cairn/ocdbt/read/versions.h>
#include <cairn/storage/kvstore.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "tests/ocdbt/support.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::FailsWith;
using testing::Builder;
using testing::contents;
using Items = std::map<std::string, std::string>;

class OcdbtStoreTest : public ::testing::Test {
 protected:
  // A leaf with these keys, each with its key as inline value.
  static BtreeNode leaf(std::initializer_list<std::string_view> keys) {
    BtreeNode node;
    for (const auto key : keys) node.add_inline(key, as_bytes(key));
    return node;
  }
  // An interior node over children of `file`.
  struct Entry {
    std::string_view key;
    std::uint16_t shared;
    DataRef child;
  };
  static BtreeNode interior(std::uint8_t height, const DataFile& file,
                            std::initializer_list<Entry> entries) {
    BtreeNode node;
    node.height = height;
    node.files = {file};
    for (const auto& e : entries)
      node.add_child(
          e.key, {.location = e.child, .statistics = {}, .subtree_common_prefix_length = e.shared});
    return node;
  }
  void publish(const BtreeNode& root) {
    build_.publish({"", "d/n"}, build_.append("d/n", root), root.height);
  }

  StorePtr base_ = make_memory_store();
  Builder build_{base_};
};

TEST_F(OcdbtStoreTest, NoManifestIsAnEmptyDatabase) {
  const auto store = open_ocdbt(base_);
  EXPECT_EQ(store->list(""), std::vector<ListEntry>{});
  EXPECT_EQ(store->read("a", {}), std::nullopt);
  EXPECT_THAT([&] { open_ocdbt(base_, {.generation = 1, .commit_time_ns = {}}); },
              FailsWith(Code::kNotFound, "no OCDBT manifest"));
  EXPECT_THAT([&] { open_ocdbt(base_, {.generation = {}, .commit_time_ns = 1}); },
              FailsWith(Code::kNotFound, "no OCDBT manifest"));
  EXPECT_EQ(read_database_info(*base_), std::nullopt);
}

TEST_F(OcdbtStoreTest, AVersionHasOneName) {
  publish(leaf({"a"}));
  EXPECT_THAT([&] { open_ocdbt(base_, {.generation = 1, .commit_time_ns = 1}); },
              FailsWith(Code::kInvalidArgument, "not both"));
}

TEST_F(OcdbtStoreTest, RangesOfValues) {
  BtreeNode root = leaf({"inline"});
  root.files = {{"", "d/v"}};
  build_.append("d/v", as_bytes("--outside--"));
  root.add_out_of_line("out", {0, 2, 7});
  publish(root);
  const auto store = open_ocdbt(base_);
  EXPECT_EQ(contents(*store), (Items{{"inline", "inline"}, {"out", "outside"}}));
  for (const char* key : {"inline", "out"}) {
    const std::string whole(as_text(store->read(key, {}).value()));
    const std::uint64_t n = whole.size();
    EXPECT_EQ(as_text(store->read(key, {1, 3}).value()), whole.substr(1, 3));
    EXPECT_EQ(as_text(store->read(key, {4, std::nullopt}).value()), whole.substr(4));
    EXPECT_EQ(as_text(store->read(key, {n, 0}).value()), "");
    Bytes out(2);
    EXPECT_TRUE(store->read_into(key, 3, out));
    EXPECT_EQ(as_text(out), whole.substr(3, 2));
    // The bytes behind an out-of-line value are another value's.
    for (const ByteRange bad : {ByteRange{n, 1}, ByteRange{n + 1, std::nullopt}, ByteRange{1, n},
                                ByteRange{1, ~std::uint64_t{0}}})
      EXPECT_THAT([&] { (void)store->read(key, bad); }, FailsWith(Code::kOutOfRange, key));
    EXPECT_THAT([&] { store->read_into(key, n - 1, out); }, FailsWith(Code::kOutOfRange, key));
  }
}

TEST_F(OcdbtStoreTest, IsReadOnlyAndHasNoEmptyKey) {
  const auto store = open_ocdbt(base_);
  EXPECT_THAT([&] { store->write("a", {}); }, FailsWith(Code::kUnimplemented, "read-only"));
  EXPECT_THAT([&] { store->remove("a"); }, FailsWith(Code::kUnimplemented, "read-only"));
  EXPECT_THAT([&] { (void)store->read("", {}); }, FailsWith(Code::kInvalidArgument, "empty"));
  EXPECT_EQ(store->describe("a/0"), "'a/0' of memory://manifest.ocdbt");
  publish(leaf({"", "a"}));
  EXPECT_EQ(open_ocdbt(base_)->list(""), (std::vector<ListEntry>{{"a", 1}}));
}

TEST_F(OcdbtStoreTest, DescendsBySeparatorsAndPrefixes) {
  const auto left = build_.append("d/n", leaf({"", "lpha", "pe"}));  // a, alpha, ape
  const auto middle = build_.append("d/n", leaf({"b", "c"}));        // nothing cut off
  const auto right = build_.append("d/n", leaf({"", "one"}));        // xyz, xyzone
  publish(interior(1, {"", "d/n"}, {{"a", 1, left}, {"b", 0, middle}, {"xyz", 3, right}}));
  const auto store = open_ocdbt(base_);
  std::vector<std::string> keys;
  for (const auto& entry : store->list("")) keys.push_back(entry.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "alpha", "ape", "b", "c", "xyz", "xyzone"}));
  for (const auto& key : keys) EXPECT_TRUE(store->size(key)) << key;
  for (const char* absent : {"A", "al", "az", "bb", "d", "xy", "xyz0", "y"})
    EXPECT_FALSE(store->size(absent)) << absent;
  EXPECT_EQ(store->list("a").size(), 3U);
  EXPECT_EQ(store->list("xyz").size(), 2U);
  EXPECT_EQ(store->list("xyzo").size(), 1U);
  EXPECT_EQ(store->list("xz").size(), 0U);
}

// A database grafted whole under another: its nodes' tables resolve against the base path of the
// entry that leads there.
TEST_F(OcdbtStoreTest, GraftedSubtreesHaveABasePath) {
  BtreeNode far = leaf({"k0"});
  far.files = {{"", "d/v"}, {"deeper/", "d/v"}};
  far.add_out_of_line("k1", {0, 0, 5});
  far.add_out_of_line("k2", {1, 0, 6});
  build_.append("child/d/v", as_bytes("value"));
  build_.append("child/deeper/d/v", as_bytes("deeper"));
  const auto leaf_ref = build_.append("child/d/n", far);
  const auto child_ref =
      build_.append("child/d/n", interior(1, {"", "d/n"}, {{"k0", 0, leaf_ref}}));
  publish(interior(2, {"child/", "d/n"}, {{"k0", 0, child_ref}}));
  EXPECT_EQ(contents(*open_ocdbt(base_)), (Items{{"k0", "k0"}, {"k1", "value"}, {"k2", "deeper"}}));
}

TEST_F(OcdbtStoreTest, ARootMayHaveABasePath) {
  BtreeNode root = leaf({"a"});
  root.files = {{"", "d/v"}};
  root.add_out_of_line("b", {0, 0, 1});
  build_.append("p/d/v", as_bytes("B"));
  build_.publish({"p/", "d/n"}, build_.append("p/d/n", root), 0);
  EXPECT_EQ(contents(*open_ocdbt(base_)), (Items{{"a", "a"}, {"b", "B"}}));
}

TEST_F(OcdbtStoreTest, TheSameNodeUnderTwoBasePathsIsTwoNodes) {
  BtreeNode node = leaf({});
  node.files = {{"", "v"}};
  node.add_out_of_line("k", {0, 0, 1});
  build_.append("p/v", as_bytes("1"));
  build_.append("v", as_bytes("2"));
  const auto ref = build_.append("p/n", node);
  BtreeNode root;
  root.height = 1;
  root.files = {{"p/", "n"}, {"", "p/n"}};
  root.add_child("ak", {.location = {0, ref.offset, ref.length},
                        .statistics = {},
                        .subtree_common_prefix_length = 1});
  root.add_child("bk", {.location = {1, ref.offset, ref.length},
                        .statistics = {},
                        .subtree_common_prefix_length = 1});
  publish(root);
  EXPECT_EQ(contents(*open_ocdbt(base_)), (Items{{"ak", "1"}, {"bk", "2"}}));
}

// Nodes that do not match what leads to them. Both a lookup and a list must notice.
class MismatchedChild : public OcdbtStoreTest {
 protected:
  void expect_damage(const BtreeNode& root, std::string_view key, const std::string& text) {
    publish(root);
    const auto store = open_ocdbt(base_);
    EXPECT_THAT([&] { (void)store->read(key, {}); }, FailsWith(Code::kDataLoss, text));
    EXPECT_THAT([&] { (void)store->list(""); }, FailsWith(Code::kDataLoss, text));
    EXPECT_THAT([&] { (void)store->list(""); },
                FailsWith(Code::kDataLoss, "b+tree node in memory://d/n ["));
  }
};

TEST_F(MismatchedChild, Height) {
  const auto ref = build_.append("d/n", leaf({"a"}));
  expect_damage(interior(2, {"", "d/n"}, {{"a", 0, ref}}), "a",
                "expected height of 1 but received: 0");
}

TEST_F(MismatchedChild, RootHeight) {
  build_.publish({"", "d/n"}, build_.append("d/n", leaf({"a"})), 3);
  EXPECT_THAT([&] { (void)open_ocdbt(base_)->list(""); },
              FailsWith(Code::kDataLoss, "expected height of 3 but received: 0"));
}

TEST_F(MismatchedChild, FirstKeyBelowTheSeparator) {
  const auto ref = build_.append("d/n", leaf({"a", "c"}));
  expect_damage(interior(1, {"", "d/n"}, {{"b", 0, ref}}), "c",
                "first key 'a' is less than inclusive_min 'b' specified by parent node");
}

TEST_F(MismatchedChild, LastKeyBeyondTheNextSeparator) {
  const auto left = build_.append("d/n", leaf({"a", "m"}));
  const auto right = build_.append("d/n", leaf({"m"}));
  expect_damage(interior(1, {"", "d/n"}, {{"a", 0, left}, {"m", 0, right}}), "a",
                "last key 'm' is not less than exclusive_max 'm'");
}

TEST_F(MismatchedChild, LastKeyBeyondTheGrandparentsSeparator) {
  const auto left = build_.append(
      "d/n", interior(1, {"", "d/n"}, {{"a", 0, build_.append("d/n", leaf({"a", "pz"}))}}));
  const auto right =
      build_.append("d/n", interior(1, {"", "d/n"}, {{"y", 1, build_.append("d/n", leaf({""}))}}));
  expect_damage(interior(2, {"", "d/n"}, {{"a", 0, left}, {"py", 1, right}}), "a",
                "last key 'pz' is not less than exclusive_max 'py'");
}

TEST_F(MismatchedChild, KeyTooLongBehindItsPrefix) {
  const std::string prefix(40000, 'p'), key(30000, 'k');
  BtreeNode child;
  child.add_inline(key, {});
  BtreeNode root = interior(1, {"", "d/n"}, {{prefix, 40000, build_.append("d/n", child)}});
  expect_damage(root, prefix + key, "full key length 70000 exceeds limit of 65535");
}

TEST_F(OcdbtStoreTest, DataFileOfANodeMissingOrShort) {
  build_.publish({"", "d/gone"}, {0, 7, 50}, 0);
  EXPECT_THAT([&] { (void)open_ocdbt(base_)->list(""); },
              FailsWith(Code::kDataLoss,
                        "b+tree node in memory://d/gone [7, 57): the data file is missing"));
  build_.append("d/short", leaf({"a"}));
  build_.publish({"", "d/short"}, {0, 7, 50}, 0);
  EXPECT_THAT([&] { (void)open_ocdbt(base_)->list(""); },
              FailsWith(Code::kDataLoss,
                        "b+tree node in memory://d/short [7, 57): the data file ends before"));
  build_.publish({"", "d/short"}, {0, 0, std::uint64_t{1} << 62U}, 0);
  EXPECT_THAT([&] { (void)open_ocdbt(base_)->list(""); },
              FailsWith(Code::kDataLoss, "an encoded object has 4611686018427387904 bytes"));
}

// TensorStore gives the empty value here.
TEST_F(OcdbtStoreTest, DataFileOfAValueMissingOrShort) {
  cairn::testing::TempDir dir;
  for (const StorePtr& base : {base_, open_file_store(dir.path())}) {
    Builder build(base);
    BtreeNode root;
    root.files = {{"", "d/gone"}, {"", "d/short"}};
    root.add_out_of_line("gone", {0, 3, 4});
    root.add_out_of_line("short", {1, 3, 4});
    root.add_out_of_line("short0", {1, 7, 0});
    build.append("d/short", as_bytes("123456"));
    build.publish({"", "d/n"}, build.append("d/n", root), 0);
    const auto store = open_ocdbt(base);
    EXPECT_EQ(store->size("gone"), 4U);
    for (const auto& [name, why] :
         {std::pair("gone", "that file is missing"), {"short", "that file is too short"}}) {
      const std::string key = name;
      SCOPED_TRACE(key);
      const std::string where = "'" + key + "' of " + base->describe("manifest.ocdbt") +
                                ": its value of 4 bytes should be at offset 3 of " +
                                base->describe("d/" + key) + ", but " + why;
      Bytes out(2);
      EXPECT_THAT([&] { (void)store->read(key, {}); }, FailsWith(Code::kDataLoss, where));
      EXPECT_THAT([&] { (void)store->map(key); }, FailsWith(Code::kDataLoss, where));
      EXPECT_THAT([&] { store->read_into(key, 2, out); }, FailsWith(Code::kDataLoss, where));
    }
    EXPECT_THAT([&] { (void)store->read("short0", {}); }, FailsWith(Code::kDataLoss, "too short"));
  }
}

TEST_F(OcdbtStoreTest, UnsafePathsAreNotOpened) {
  BtreeNode root = leaf({"a"});
  root.files = {{"", "../secret"}};
  root.add_out_of_line("b", {0, 0, 1});
  publish(root);
  const auto store = open_ocdbt(base_);
  EXPECT_EQ(store->list("").size(), 2U);
  EXPECT_EQ(as_text(store->read("a", {}).value()), "a");
  EXPECT_THAT([&] { (void)store->read("b", {}); },
              FailsWith(Code::kDataLoss, "data file path '../secret' has a '.' or '..' component"));
  EXPECT_THAT([&] { (void)store->locate("b"); }, FailsWith(Code::kDataLoss, "../secret"));
  build_.publish({"/etc/", "passwd"}, {0, 0, 20}, 0);
  EXPECT_THAT([&] { (void)open_ocdbt(base_)->list(""); },
              FailsWith(Code::kDataLoss, "data file path '/etc/passwd'"));
}

TEST_F(OcdbtStoreTest, PathsBehindALongBasePath) {
  BtreeNode child = leaf({"a"});
  child.files = {{"", std::string(60000, 'x')}};
  const std::string base_path = std::string(6000, 'y') + "/";
  const auto ref = build_.append(base_path + "n", child);
  publish(interior(1, {base_path, "n"}, {{"a", 0, ref}}));
  EXPECT_THAT([&] { (void)open_ocdbt(base_)->list(""); },
              FailsWith(Code::kDataLoss, "path of 66001 bytes exceeds limit of 65535"));
}

// Each node refers twice to the next, so 60 small nodes hold 2^60 keys.
TEST_F(OcdbtStoreTest, AListThatWouldNotEndIsRefused) {
  DataRef below = build_.append("d/n", leaf({"a", "b"}));
  for (std::uint8_t height = 1; height < 60; ++height)
    below =
        build_.append("d/n", interior(height, {"", "d/n"}, {{"aa", 1, below}, {"ba", 1, below}}));
  build_.publish({"", "d/n"}, below, 59);
  const auto store = open_ocdbt(base_);
  EXPECT_THAT([&] { (void)store->list(""); },
              FailsWith(Code::kUnimplemented, "which exceeds the expansion that Cairn allows"));
  EXPECT_EQ(store->size(std::string(60, 'a')), 60U - 59U);
  EXPECT_EQ(store->list(std::string(59, 'b')).size(), 2U);
}

// A leaf of 5000 short keys behind a prefix of 60,000 bytes: 300 MB of full keys.
TEST_F(OcdbtStoreTest, FullKeysHaveABudget) {
  BtreeNode below;
  for (int i = 1000; i < 6000; ++i)
    below.add_inline(std::to_string(i), as_bytes(std::string(100, 'v')));
  const DataRef leaf = build_.append("d/n", below);
  const std::string prefix(60000, 'p');
  publish(interior(1, {"", "d/n"}, {{prefix + "1", 60000, leaf}}));
  const auto store = open_ocdbt(base_);
  EXPECT_THAT([&] { (void)store->list(""); },
              FailsWith(Code::kUnimplemented, "bytes of memory, the limit of Cairn"));
  EXPECT_EQ(store->list(prefix + "10").size(), 100U);
  EXPECT_EQ(store->size(prefix + "5999"), 100U);
}

TEST_F(OcdbtStoreTest, OnlyTheNodesNeededAreReadAndOnce) {
  const auto base =
      std::make_shared<testing::CountingStore>(open_file_store(testing::golden_path("deep_raw")));
  const auto height = read_database_info(*base)->newest()->root_height;
  ASSERT_GE(height, 2);
  EXPECT_EQ(base->reads(), 1U);
  const auto store = open_ocdbt(base);
  EXPECT_EQ(base->reads(), 1U);  // the manifest
  const std::string key = "params.layer_09.bias/0.1";
  EXPECT_TRUE(store->size(key));
  EXPECT_EQ(base->reads(), height + 1U);
  EXPECT_TRUE(store->size(key));
  EXPECT_EQ(base->reads(), 0U);
  EXPECT_EQ(store->list(key).size(), 1U);
  EXPECT_LE(base->reads(), height);  // at most the neighbour on each level
  EXPECT_EQ(store->list("").size(), 70U);
  EXPECT_GT(base->reads(), 10U);
  EXPECT_EQ(store->list("").size(), 70U);
  EXPECT_EQ(base->reads(), 0U);
}

// Records the threads that read, and lets each wait a while until there are as many as expected.
class ThreadRecorder final : public cairn::testing::ForwardingStore {
 public:
  ThreadRecorder(StorePtr base, std::size_t expected)
      : ForwardingStore(std::move(base)), expected_(expected) {}
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    {
      std::unique_lock lock(mutex_);
      readers_.insert(std::this_thread::get_id());
      another_.notify_all();
      // The first reads, from the root to its children, are one thread's.
      another_.wait_for(lock, std::chrono::milliseconds(300),
                        [&] { return readers_.size() >= expected_; });
    }
    return ForwardingStore::read_into(key, offset, out);
  }
  [[nodiscard]] std::set<std::thread::id> readers() const {
    const std::scoped_lock lock(mutex_);
    return readers_;
  }

 private:
  std::size_t expected_;
  mutable std::mutex mutex_;
  mutable std::condition_variable another_;
  mutable std::set<std::thread::id> readers_;
};

TEST_F(OcdbtStoreTest, AListReadsWithAsManyThreadsAsAskedFor) {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    const auto base = std::make_shared<ThreadRecorder>(
        open_file_store(testing::golden_path("deep_raw")), std::min<std::size_t>(threads, 2));
    EXPECT_EQ(open_ocdbt(base, {}, threads)->list("").size(), 70U);
    const auto readers = base->readers();
    if (threads == 1)
      EXPECT_THAT(readers, ::testing::ElementsAre(std::this_thread::get_id()));
    else
      EXPECT_THAT(readers.size(), ::testing::AllOf(::testing::Gt(1U), ::testing::Le(threads)));
  }
}

TEST_F(OcdbtStoreTest, ManyThreadsReadOneStore) {
  BtreeNode root;
  root.height = 1;
  root.files = {{"", "d/n"}};
  Items expected;
  for (int i = 100; i < 160; ++i) {
    const std::string prefix = std::to_string(i);
    root.add_child(prefix + "a", {.location = build_.append("d/n", leaf({"a", "b"})),
                                  .statistics = {},
                                  .subtree_common_prefix_length = 3});
    expected[prefix + "a"] = "a";
    expected[prefix + "b"] = "b";
  }
  publish(root);
  const auto store = open_ocdbt(base_);
  std::vector<std::thread> threads;
  std::vector<Items> seen(4);
  for (auto& items : seen) threads.emplace_back([&] { items = contents(*store); });
  for (auto& thread : threads) thread.join();
  for (const auto& items : seen) EXPECT_EQ(items, expected);
}

}  // namespace
}  // namespace cairn::ocdbt
