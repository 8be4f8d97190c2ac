// contract_test.cc -- what every store promises, once for all of them. A store joins by adding a
// Backend to kBackends.
#include <cairn/base/executor.h>
#include <cairn/kvstore/object/gcs/gcs_store.h>
#include <cairn/storage/kvstore.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/kvstore/object/support/fake_gcs.h"
#include "tests/kvstore/object/support/s3_fixture.h"
#include "tests/ocdbt/support.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {

inline void PrintTo(const ListEntry& entry, std::ostream* out) {
  *out << entry.key << ": " << entry.size;
}

namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::TempDir;

using Contents = std::map<std::string, std::string>;

// A store with what keeps it alive.
struct Opened {
  StorePtr store;
  std::shared_ptr<void> owner;
};

struct Backend {
  std::string name;
  Opened (*make)(const Contents&);  // a store that holds exactly these
  bool writable = true;
};

Opened filled(Opened opened, const Contents& contents) {
  for (const auto& [key, value] : contents) opened.store->write(key, as_bytes(value));
  return opened;
}

Opened make_memory(const Contents& contents) {
  return filled({make_memory_store(), nullptr}, contents);
}

Opened make_file(const Contents& contents) {
  auto dir = std::make_shared<TempDir>();
  return filled({open_file_store(dir->path()), dir}, contents);
}

// Beside keys that are not below the prefix, one of which is the prefix itself.
Opened make_prefix(const Contents& contents) {
  auto base = make_memory_store();
  for (const char* other : {"a", "pre/", "pre", "pre0", "z"}) base->write(other, as_bytes("other"));
  return filled({prefix_store(base, "pre/"), nullptr}, contents);
}

Opened make_prefix_of_file(const Contents& contents) {
  Opened file = make_file({{"outside", "x"}, {"pre0/y", "z"}});
  return filled({prefix_store(prefix_store(file.store, "pre/"), "fix/"), file.owner}, contents);
}

// Two leaves below a root; long values are out of line.
Opened make_ocdbt(Opened base, const Contents& contents) {
  ocdbt::testing::Builder build(base.store);
  ocdbt::BtreeNode root, leaf;
  root.height = 1;
  root.files = {{"", "d/n"}};
  for (const auto& [key, value] : contents) {
    if (leaf.keys.size() == 0) leaf.files = {{"", "d/v"}};
    if (value.size() <= 4)
      leaf.add_inline(key, as_bytes(value));
    else
      leaf.add_out_of_line(key, build.append("d/v", as_bytes(value)));
    if (leaf.keys.size() < 3) continue;
    root.add_child(leaf.keys.front(), {.location = build.append("d/n", leaf)});
    leaf = {};
  }
  build.publish({"", "d/n"}, build.append("d/n", root), 1);
  return {open_ocdbt(base.store), base.owner};
}

Opened make_ocdbt_in_memory(const Contents& contents) {
  return make_ocdbt(make_memory({}), contents);
}
Opened make_ocdbt_in_files(const Contents& contents) { return make_ocdbt(make_file({}), contents); }

Opened make_s3(object::testing::FakeS3::Kind kind, const Contents& contents) {
  const auto server = std::make_shared<object::testing::FakeS3>(kind);
  server->page_size = 2;
  for (const char* other : {"a", "pre", "pre0", "z", "pre/fix"}) server->put(other, "other");
  return filled({object::testing::make_s3_store(server, {.prefix = "pre/fix"}), nullptr}, contents);
}
Opened make_strict_s3(const Contents& contents) {
  return make_s3(object::testing::FakeS3::Kind::kStrict, contents);
}
Opened make_lax_s3(const Contents& contents) {
  return make_s3(object::testing::FakeS3::Kind::kLax, contents);
}
Opened make_gcs(const Contents& contents) {
  const auto fake = std::make_shared<object::testing::FakeGcs>();
  fake->page_size = 2;
  return filled({object::make_gcs_store(object::testing::client_of(fake)), fake}, contents);
}

const Backend kBackends[] = {
    {"memory", make_memory},
    {"file", make_file},
    {"prefix", make_prefix},
    {"prefix_of_file", make_prefix_of_file},
    {"s3_strict", make_strict_s3},
    {"s3_lax", make_lax_s3},
    {"ocdbt_in_memory", make_ocdbt_in_memory, false},
    {"ocdbt_in_files", make_ocdbt_in_files, false},
    {"gcs", make_gcs},
};

// Values around the size from which files are mapped.
const std::string kLarge(200000, 'L');
const Contents kContents = {{"a/b", "0123456789"},
                            {"a/c", ""},
                            {"a/d/e", "deep"},
                            {"ab", kLarge},
                            {"b", std::string("\0\xff", 2)},
                            {"\xc3\xa9/\x01 x", "odd"}};

class KvContract : public ::testing::TestWithParam<Backend> {
 protected:
  Opened opened_ = GetParam().make(kContents);
  KvStore& store_ = *opened_.store;

  std::optional<std::string> read(std::string_view key, ByteRange range = {}) const {
    const auto bytes = store_.read(key, range);
    return bytes ? std::optional<std::string>(as_text(*bytes)) : std::nullopt;
  }
};

TEST_P(KvContract, ReadsWholeValues) {
  for (const auto& [key, value] : kContents) EXPECT_EQ(read(key), value) << key;
}

TEST_P(KvContract, ReadsRanges) {
  EXPECT_EQ(read("a/b", {2, 3}), "234");
  EXPECT_EQ(read("a/b", {7, {}}), "789");
  EXPECT_EQ(read("a/b", {0, 10}), "0123456789");
  EXPECT_EQ(read("a/b", {4, 0}), "");
  EXPECT_EQ(read("a/b", {10, {}}), "");
  EXPECT_EQ(read("a/b", {10, 0}), "");
  EXPECT_EQ(read("a/c", {0, 0}), "");
  EXPECT_EQ(read("ab", {199990, 10}), std::string(10, 'L'));
}

TEST_P(KvContract, RefusesRangesOutsideTheValue) {
  constexpr auto kHuge = std::numeric_limits<std::uint64_t>::max();
  for (const ByteRange range : {ByteRange{0, 11},
                                {5, 6},
                                {10, 1},
                                {11, 0},
                                {11, {}},
                                {kHuge, {}},
                                {kHuge, 1},
                                {1, kHuge},
                                {kHuge, kHuge}})
    EXPECT_THAT([&] { read("a/b", range); }, FailsWith(Code::kOutOfRange, "a/b")) << range.offset;
  EXPECT_THAT([&] { read("a/c", {0, 1}); }, FailsWith(Code::kOutOfRange));
}

TEST_P(KvContract, ReadsValuesOfABoundedSize) {
  const auto read_within = [&](const std::string& key, std::uint64_t most) {
    return std::string(as_text(store_.read_at_most(key, most).value()));
  };
  for (const auto& entry : kContents) {
    const auto& [key, value] = entry;
    EXPECT_EQ(read_within(key, value.size()), value) << key;
    EXPECT_EQ(read_within(key, std::numeric_limits<std::uint64_t>::max()), value) << key;
    if (value.empty()) continue;
    EXPECT_THAT([&] { read_within(entry.first, entry.second.size() - 1); },
                FailsWith(Code::kDataLoss, key))
        << key;
  }
  EXPECT_EQ(store_.read_at_most("none", 10), std::nullopt);
  EXPECT_THAT([&] { (void)store_.read_at_most("", 10); },
              FailsWith(Code::kInvalidArgument, "the key is empty"));
}

TEST_P(KvContract, ReadsIntoMemoryOfTheCaller) {
  Bytes out(4, std::byte{'x'});
  EXPECT_TRUE(store_.read_into("a/b", 3, out));
  EXPECT_EQ(as_text(out), "3456");
  EXPECT_TRUE(store_.read_into("a/b", 10, {}));
  EXPECT_TRUE(store_.read_into("a/c", 0, {}));
  EXPECT_THAT([&] { store_.read_into("a/b", 7, out); }, FailsWith(Code::kOutOfRange));
  EXPECT_THAT([&] { store_.read_into("a/b", 11, {}); }, FailsWith(Code::kOutOfRange));
  EXPECT_THAT([&] { store_.read_into("a/b", std::numeric_limits<std::uint64_t>::max(), out); },
              FailsWith(Code::kOutOfRange));
}

TEST_P(KvContract, MapsWholeValuesThatOutliveTheStore) {
  std::map<std::string, SharedBytes> mapped;
  for (const auto& [key, value] : kContents) mapped[key] = store_.map(key).value();
  opened_ = {};
  for (const auto& [key, value] : kContents) EXPECT_EQ(as_text(mapped[key].bytes), value) << key;
}

TEST_P(KvContract, KnowsSizes) {
  for (const auto& [key, value] : kContents) EXPECT_EQ(store_.size(key), value.size()) << key;
}

TEST_P(KvContract, AnAbsentKeyIsAnAnswer) {
  Bytes out(1);
  for (const char* absent : {"none", "a", "a/", "a/b/c", "a/bb", "A/b"}) {
    // files have no such keys; the file store's own test covers it
    if (std::string_view(absent).back() == '/') continue;
    EXPECT_EQ(read(absent), std::nullopt) << absent;
    EXPECT_EQ(read(absent, {5, 5}), std::nullopt) << absent;
    EXPECT_FALSE(store_.read_into(absent, 0, out)) << absent;
    EXPECT_FALSE(store_.map(absent)) << absent;
    EXPECT_FALSE(store_.size(absent)) << absent;
    EXPECT_FALSE(store_.locate(absent)) << absent;
  }
}

TEST_P(KvContract, TheEmptyKeyIsNone) {
  Bytes out(1);
  EXPECT_THAT([&] { read(""); }, FailsWith(Code::kInvalidArgument, "the key is empty"));
  EXPECT_THAT([&] { store_.read_into("", 0, out); }, FailsWith(Code::kInvalidArgument));
  EXPECT_THAT([&] { (void)store_.map(""); }, FailsWith(Code::kInvalidArgument));
  EXPECT_THAT([&] { (void)store_.size(""); }, FailsWith(Code::kInvalidArgument));
  EXPECT_THAT([&] { (void)store_.locate(""); }, FailsWith(Code::kInvalidArgument));
}

TEST_P(KvContract, ListsSortedByBytesWithSizes) {
  EXPECT_THAT(store_.list(""), ElementsAre(ListEntry{"a/b", 10}, ListEntry{"a/c", 0},
                                           ListEntry{"a/d/e", 4}, ListEntry{"ab", 200000},
                                           ListEntry{"b", 2}, ListEntry{"\xc3\xa9/\x01 x", 3}));
  EXPECT_THAT(store_.list("a"), ElementsAre(ListEntry{"a/b", 10}, ListEntry{"a/c", 0},
                                            ListEntry{"a/d/e", 4}, ListEntry{"ab", 200000}));
  EXPECT_THAT(store_.list("a/"),
              ElementsAre(ListEntry{"a/b", 10}, ListEntry{"a/c", 0}, ListEntry{"a/d/e", 4}));
  EXPECT_THAT(store_.list("a/d/"), ElementsAre(ListEntry{"a/d/e", 4}));
  EXPECT_THAT(store_.list("a/d"), ElementsAre(ListEntry{"a/d/e", 4}));
  EXPECT_THAT(store_.list("a/b"), ElementsAre(ListEntry{"a/b", 10}));
  for (const char* nothing : {"a/b/", "a//", "c", "a/bb", "/", "..", "a/../a/", "./a"})
    EXPECT_TRUE(store_.list(nothing).empty()) << nothing;
}

TEST_P(KvContract, ALocationHoldsTheValuesBytes) {
  for (const auto& [key, value] : kContents) {
    const auto location = store_.locate(key);
    if (!location) continue;
    const Bytes file = [&] {
      std::ifstream in(location->file, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(in)), {});
      return Bytes(as_bytes(text).begin(), as_bytes(text).end());
    }();
    ASSERT_EQ(location->length, value.size()) << key;
    ASSERT_LE(location->offset + location->length, file.size()) << key;
    EXPECT_EQ(as_text(ByteView(file).subspan(location->offset, location->length)), value) << key;
  }
}

TEST_P(KvContract, DescribesKeysForPeople) {
  EXPECT_THAT(store_.describe("a/b"), ::testing::HasSubstr("a/b"));
}

TEST_P(KvContract, ManyThreadsMayRead) {
  Executor executor(4);
  executor.for_each(400, [&](std::size_t i) {
    const auto& [key, value] =
        *std::next(kContents.begin(), static_cast<std::ptrdiff_t>(i % kContents.size()));
    EXPECT_EQ(read(key), value);
    EXPECT_EQ(as_text(store_.map(key)->bytes), value);
    EXPECT_EQ(store_.list("").size(), kContents.size());
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, KvContract, ::testing::ValuesIn(kBackends),
                         [](const auto& test) { return test.param.name; });

std::vector<Backend> writable_backends() {
  std::vector<Backend> writable;
  for (const auto& backend : kBackends)
    if (backend.writable) writable.push_back(backend);
  return writable;
}

class KvWriteContract : public KvContract {};

TEST_P(KvWriteContract, WritesAndReplaces) {
  store_.write("new/key", as_bytes("1"));
  EXPECT_EQ(read("new/key"), "1");
  store_.write("new/key", as_bytes("a longer value"));
  EXPECT_EQ(read("new/key"), "a longer value");
  EXPECT_EQ(read("new/key", {2, 6}), "longer");
  store_.write("new/key", as_bytes(kLarge));
  EXPECT_EQ(store_.size("new/key"), kLarge.size());
  store_.write("new/key", {});
  EXPECT_EQ(read("new/key"), "");
  EXPECT_THAT([&] { store_.write("", {}); }, FailsWith(Code::kInvalidArgument));
}

TEST_P(KvWriteContract, AMappedValueStaysWhatItWas) {
  const SharedBytes large = store_.map("ab").value();
  const SharedBytes small = store_.map("a/b").value();
  store_.write("ab", as_bytes("other"));
  store_.write("a/b", as_bytes("other"));
  store_.remove("ab");
  EXPECT_EQ(as_text(large.bytes), kLarge);
  EXPECT_EQ(as_text(small.bytes), "0123456789");
}

TEST_P(KvWriteContract, RemovesAndIgnoresWhatIsAbsent) {
  EXPECT_EQ(read("a/b"), "0123456789");
  store_.remove("a/b");
  EXPECT_EQ(read("a/b"), std::nullopt);
  EXPECT_EQ(store_.list("a/b").size(), 0U);
  for (const char* absent : {"a/b", "none", "a", "ab/c", "a/d"})
    EXPECT_NO_THROW(store_.remove(absent)) << absent;
  EXPECT_EQ(read("a/d/e"), "deep") << "what only looks like a folder is not removed";
  EXPECT_THAT([&] { store_.remove(""); }, FailsWith(Code::kInvalidArgument));
}

TEST_P(KvWriteContract, AReaderSeesTheOldValueOrTheNewOne) {
  const std::string values[] = {std::string(70000, '0'), std::string(150000, '1')};
  store_.write("k", as_bytes(values[0]));
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::size_t i = 1; i < 60; ++i) store_.write("k", as_bytes(values[i % 2]));
    done = true;
  });
  while (!done) {
    const std::string seen = read("k").value();
    EXPECT_TRUE(seen == values[0] || seen == values[1]);
    const std::string bounded(as_text(store_.read_at_most("k", 150000).value()));
    EXPECT_TRUE(bounded == values[0] || bounded == values[1]);
    const SharedBytes mapped = store_.map("k").value();
    EXPECT_TRUE(as_text(mapped.bytes) == values[0] || as_text(mapped.bytes) == values[1]);
    EXPECT_EQ(store_.list("k").size(), 1U) << "nothing half written is listed";
  }
  writer.join();
}

TEST_P(KvWriteContract, ReplacesOnlyWhatIsExpected) {
  EXPECT_FALSE(store_.replace_if("a/b", std::nullopt, as_bytes("x"))) << "there is a value";
  EXPECT_FALSE(store_.replace_if("a/b", as_bytes("012345678x"), as_bytes("x")));
  EXPECT_FALSE(store_.replace_if("a/b", as_bytes("012345678"), as_bytes("x")));
  EXPECT_FALSE(store_.replace_if("none/at/all", as_bytes(""), as_bytes("x")))
      << "nothing is not the empty value";
  EXPECT_EQ(read("a/b"), "0123456789");
  EXPECT_EQ(read("none/at/all"), std::nullopt);
  EXPECT_TRUE(store_.replace_if("a/b", as_bytes("0123456789"), as_bytes("new")));
  EXPECT_EQ(read("a/b"), "new");
  EXPECT_TRUE(store_.replace_if("e/f", std::nullopt, {}));
  EXPECT_EQ(read("e/f"), "");
  EXPECT_TRUE(store_.replace_if("e/f", ByteView(), as_bytes("y")));
  EXPECT_EQ(read("e/f"), "y");
  EXPECT_THAT(store_.list("e"), ElementsAre(ListEntry{"e/f", 1})) << "no lock file stays";
  EXPECT_THAT([&] { store_.replace_if("", std::nullopt, {}); }, FailsWith(Code::kInvalidArgument));
}

TEST_P(KvWriteContract, ConditionalWritersLoseNothing) {
  constexpr int kThreads = 4, kRounds = 25;
  const auto count_up = [&] {
    for (int done = 0; done < kRounds;) {
      const auto before = store_.read("count", {});
      const std::string after =
          std::to_string(before ? std::stoi(std::string(as_text(*before))) + 1 : 1);
      const auto expected = before ? std::optional<ByteView>(*before) : std::nullopt;
      if (store_.replace_if("count", expected, as_bytes(after))) ++done;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(count_up);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(read("count"), std::to_string(kThreads * kRounds));
}

TEST_P(KvWriteContract, AppendedValuesAppearWhole) {
  const auto appender = store_.append("new/large");
  EXPECT_EQ(appender->size(), 0U);
  std::vector<ByteView> parts(150, as_bytes("ab"));  // more than one call takes
  parts[70] = {};
  appender->append(parts);
  EXPECT_EQ(appender->size(), 298U);
  const ByteView last[] = {as_bytes(kLarge)};
  appender->append(last);
  appender->append({});
  EXPECT_EQ(read("new/large"), std::nullopt) << "before its commit";
  EXPECT_TRUE(store_.list("new").empty());
  appender->commit();
  std::string expected;
  for (int i = 0; i < 149; ++i) expected += "ab";
  EXPECT_EQ(read("new/large"), expected + kLarge);
  EXPECT_EQ(appender->size(), 298 + kLarge.size());
  EXPECT_THAT([&] { appender->append(last); }, FailsWith(Code::kFailedPrecondition));
  EXPECT_THAT([&] { appender->commit(); }, FailsWith(Code::kFailedPrecondition));
  const auto again = store_.append("new/large");
  EXPECT_EQ(read("new/large"), expected + kLarge) << "the old value stays until the commit";
  again->commit();
  EXPECT_EQ(read("new/large"), "");
  EXPECT_THAT([&] { (void)store_.append(""); }, FailsWith(Code::kInvalidArgument));
}

TEST_P(KvWriteContract, UncommittedWritesAreInvisible) {
  {
    const auto appender = store_.append("a/b");
    const ByteView part[] = {as_bytes("half")};
    appender->append(part);
  }
  EXPECT_EQ(read("a/b"), "0123456789");
  EXPECT_EQ(store_.list("a/b").size(), 1U);
}

TEST_P(KvWriteContract, RemovesRanges) {
  remove_range(store_, {"a/c", "ab"});
  EXPECT_EQ(store_.list("").size(), 4U);
  EXPECT_EQ(read("a/c"), std::nullopt);
  EXPECT_EQ(read("a/d/e"), std::nullopt);
  remove_range(store_, KeyRange::with_prefix("a/"));
  EXPECT_EQ(store_.list("").size(), 3U);
  remove_range(store_, {"b", std::nullopt});
  EXPECT_THAT(store_.list(""), ElementsAre(ListEntry{"ab", 200000}));
  remove_range(store_, {"x", "a"});
  EXPECT_EQ(store_.list("").size(), 1U);
  remove_range(store_, {});
  EXPECT_TRUE(store_.list("").empty());
}

TEST(KeyRange, WithPrefixEndsBehindAllItsKeys) {
  EXPECT_EQ(KeyRange::with_prefix("ab"), (KeyRange{"ab", "ac"}));
  EXPECT_EQ(KeyRange::with_prefix("a\xff"), (KeyRange{"a\xff", "b"}));
  EXPECT_EQ(KeyRange::with_prefix("\xff\xff"), (KeyRange{"\xff\xff", std::nullopt}));
  EXPECT_EQ(KeyRange::with_prefix("\x7f"), (KeyRange{"\x7f", "\x80"}));
  EXPECT_EQ(KeyRange::with_prefix(""), KeyRange{});
}

TEST(ReadOnlyStores, SayThatTheyAre) {
  const Opened database = make_ocdbt_in_memory({{"k", "v"}});
  EXPECT_THAT([&] { database.store->replace_if("k", std::nullopt, {}); },
              FailsWith(Code::kUnimplemented));
  EXPECT_THAT([&] { database.store->append("k")->commit(); }, FailsWith(Code::kUnimplemented));
}

INSTANTIATE_TEST_SUITE_P(Stores, KvWriteContract, ::testing::ValuesIn(writable_backends()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace cairn
