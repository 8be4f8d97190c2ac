// writer_test.cc -- commits against a plain map: whatever is written, replaced and removed, every
// version reads as it should.
#include <cairn/base/executor.h>
#include <cairn/ocdbt/read/check.h>
#include <cairn/ocdbt/read/versions.h>
#include <cairn/ocdbt/write/split.h>
#include <cairn/ocdbt/write/writer.h>
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/ocdbt/support.h"
#include "tests/support/faulty_store.h"
#include "tests/support/matchers.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::FailsWith;
using testing::contents;
using ::testing::ElementsAre;

using Items = std::map<std::string, std::string>;

void write_all(Writer::Stream& stream, const Items& items) {
  for (const auto& [key, value] : items) stream.write(key, as_bytes(value));
}

CommittedVersion commit_items(const StorePtr& base, const Items& items,
                              const WriterOptions& options = {}) {
  Writer writer(base, options);
  write_all(writer.stream(), items);
  return writer.commit();
}

// Nothing is damaged, nothing lies about, and statistics of the newest root are those of its
// contents.
void expect_sound(const StorePtr& base) {
  VerifyReport report;
  std::set<std::string> files;
  check_database(base, report, files);
  for (const auto& finding : report.findings)
    ADD_FAILURE() << finding.file << ": " << finding.message;
  const auto info = read_database_info(*base);
  ASSERT_TRUE(info && info->newest());
  EXPECT_EQ(info->newest()->statistics.num_keys, open_ocdbt(base)->list("").size());
}

Items numbered_items(int count, std::size_t size) {
  Items items;
  for (int i = 0; i < count; ++i)
    items["key/" + std::to_string(i * 7919 % count)] =
        std::string(size, static_cast<char>('a' + i % 26));
  return items;
}

TEST(Writer, WritesAnEmptyDatabase) {
  const StorePtr base = make_memory_store();
  const CommittedVersion done = Writer(base, {}).commit();
  EXPECT_EQ(done.generation, 1U);
  EXPECT_EQ(done.num_keys, 0U);
  EXPECT_TRUE(open_ocdbt(base)->list("").empty());
  EXPECT_THAT(base->list(""), ElementsAre(::testing::Field(&ListEntry::key, "manifest.ocdbt")));
}

TEST(Writer, WritesOneFileAndTheManifestForASmallCheckpoint) {
  const StorePtr base = make_memory_store();
  const Items items = {{"a/.zarray", "{}"},
                       {"a/0", std::string(5000, 'x')},
                       {"b", ""},
                       {std::string("\0\xff", 2), "odd"}};
  const CommittedVersion done = commit_items(base, items);
  EXPECT_EQ(done.num_keys, 4U);
  EXPECT_EQ(contents(*open_ocdbt(base)), items);
  EXPECT_EQ(base->list("").size(), 2U);
  expect_sound(base);
}

TEST(Writer, ValuesUpToTheLimitAreInline) {
  for (const std::uint32_t limit : {0U, 1U, 100U, 1024U}) {
    const StorePtr base = make_memory_store();
    Config config;
    config.max_inline_value_bytes = limit;
    const Items items = {
        {"at", std::string(limit, 'a')}, {"empty", ""}, {"over", std::string(limit + 1, 'b')}};
    commit_items(base, items, {.config = config});
    EXPECT_EQ(contents(*open_ocdbt(base)), items);
    EXPECT_EQ(read_database_info(*base)->newest()->statistics.num_indirect_value_bytes, limit + 1);
  }
}

TEST(Writer, PutsThePartsOfAValueTogether) {
  const StorePtr base = make_memory_store();
  Writer writer(base, {});
  auto& stream = writer.stream();
  const std::string large(100000, 'L');
  const ByteView parts[] = {as_bytes("head"), {}, as_bytes(large), as_bytes("tail")};
  stream.write("long", parts);
  stream.write("short", std::span(parts).first(2));
  stream.write("none", std::span<const ByteView>());
  writer.commit();
  EXPECT_EQ(contents(*open_ocdbt(base)),
            (Items{{"long", "head" + large + "tail"}, {"none", ""}, {"short", "head"}}));
}

TEST(Writer, RefusesWhatADatabaseCannotHold) {
  const StorePtr base = make_memory_store();
  Writer writer(base, {});
  auto& stream = writer.stream();
  EXPECT_THAT([&] { stream.write("", as_bytes("v")); },
              FailsWith(Code::kInvalidArgument, "0 bytes"));
  EXPECT_THAT([&] { stream.write(std::string(65536, 'k'), as_bytes("v")); },
              FailsWith(Code::kInvalidArgument, "65536 bytes"));
  EXPECT_THAT([&] { stream.remove(""); }, FailsWith(Code::kInvalidArgument));
  stream.write(std::string(65535, 'k'), as_bytes("v"));
  writer.commit();
  EXPECT_THAT([&] { writer.commit(); },
              FailsWith(Code::kFailedPrecondition, "has already committed"));
  EXPECT_EQ(contents(*open_ocdbt(base)), (Items{{std::string(65535, 'k'), "v"}}));

  Config bad;
  bad.version_tree_arity_log2 = 17;
  EXPECT_THAT([&] { Writer(base, {.config = bad}); }, FailsWith(Code::kInvalidArgument, "arity"));
  bad = {};
  bad.max_inline_value_bytes = (1U << 20U) + 1;
  EXPECT_THAT([&] { Writer(base, {.config = bad}); },
              FailsWith(Code::kInvalidArgument, "max_inline_value_bytes"));
  bad = {};
  bad.zstd_level = 23;
  EXPECT_THAT([&] { Writer(base, {.config = bad}); },
              FailsWith(Code::kInvalidArgument, "zstd level"));
}

TEST(Writer, BeginsAnotherFileAtTheTargetSize) {
  const StorePtr base = make_memory_store();
  Items items;
  for (int i = 0; i < 9; ++i) items[std::to_string(i)] = std::string(400, 'v');
  commit_items(base, items, {.target_data_file_size = 1000});
  EXPECT_EQ(contents(*open_ocdbt(base)), items);
  std::vector<std::uint64_t> sizes;
  for (const auto& entry : base->list("d/")) sizes.push_back(entry.size);
  EXPECT_EQ(sizes.size(), 4U) << "three with three values each, one with the node";
  EXPECT_EQ(std::ranges::count(sizes, 1200U), 3)
      << "a file ends with the record that reaches the target";
}

TEST(Writer, KindsOfObjectsMayHaveFilesOfTheirOwn) {
  const StorePtr base = make_memory_store();
  Config config;
  config.version_tree_arity_log2 = 1;
  const WriterOptions options{
      .config = config, .value_prefix = "values/", .btree_prefix = "bt-", .version_prefix = ""};
  Items all;
  for (int i = 0; i < 6; ++i) {
    const Items items = {{"k" + std::to_string(i), std::string(300, 'v')}};
    all.merge(Items(items));
    commit_items(base, items, options);
  }
  EXPECT_EQ(contents(*open_ocdbt(base)), all);
  EXPECT_EQ(base->list("values/").size(), 6U);
  EXPECT_EQ(base->list("bt-").size(), 6U);
  EXPECT_EQ(base->list("d/").size(), 0U);
  expect_sound(base);
}

TEST(Writer, SameCallsGiveSameBytesOnRequest) {
  const auto make = [](std::uint64_t seed) {
    const StorePtr base = make_memory_store();
    WriterOptions options{.deterministic =
                              Deterministic{.uuid = {1, 2, 3}, .seed = seed, .commit_time_ns = 77}};
    Writer writer(base, options);
    write_all(writer.stream(), numbered_items(100, 200));
    write_all(writer.stream(), {{"z", std::string(1000, 'z')}});
    EXPECT_EQ(writer.commit().commit_time_ns, 77U);
    return contents(*base);
  };
  EXPECT_EQ(make(5), make(5));
  EXPECT_NE(make(5), make(6));
}

TEST(Writer, LaterChangesToAKeyCount) {
  const StorePtr base = make_memory_store();
  commit_items(base, {{"a", "old"}, {"b", "old"}, {"c", "old"}, {"d", "old"}, {"e", "old"}});
  Writer writer(base, {});
  auto& one = writer.stream();
  auto& two = writer.stream();
  two.write("a", as_bytes("1"));
  one.write("a", as_bytes("2"));
  one.write("b", as_bytes("x"));
  one.write("bb", as_bytes("x"));
  two.remove_range({"b", "d"});
  one.write("c", as_bytes("3"));
  two.remove("d");
  two.remove("none");
  two.write("e", as_bytes("gone"));
  one.remove("e");
  one.remove_range({"x", "a"});  // empty
  EXPECT_EQ(writer.commit().generation, 2U);
  EXPECT_EQ(contents(*open_ocdbt(base)), (Items{{"a", "2"}, {"c", "3"}}));
  EXPECT_EQ(contents(*open_ocdbt(base, {.generation = 1, .commit_time_ns = {}})).size(), 5U);
}

TEST(Writer, RemovingEverythingLeavesAnEmptyTree) {
  const StorePtr base = make_memory_store();
  Config config;
  config.max_decoded_node_bytes = 300;
  commit_items(base, numbered_items(200, 20), {.config = config});
  {
    Writer writer(base, {});
    writer.stream().remove_range({});
    EXPECT_EQ(writer.commit().num_keys, 0U);
  }
  EXPECT_TRUE(open_ocdbt(base)->list("").empty());
  EXPECT_TRUE(read_database_info(*base)->newest()->root.missing());
  EXPECT_EQ(commit_items(base, {{"back", "again"}}).generation, 3U);
  EXPECT_EQ(contents(*open_ocdbt(base)), (Items{{"back", "again"}}));
  EXPECT_EQ(open_ocdbt(base, {.generation = 1, .commit_time_ns = {}})->list("").size(), 200U);
  expect_sound(base);
}

struct RandomCase {
  const char* name;
  std::uint32_t node_bytes;
  std::uint8_t arity_log2;
  ManifestKind kind;
};

class WriterModel : public ::testing::TestWithParam<RandomCase> {};

std::string random_key(std::mt19937& random) {
  // Keys of few letters share prefixes and neighbourhoods; now and then one is long or binary.
  std::string key(1 + random() % 5, 'a');
  for (char& c : key) c = static_cast<char>("abc\x80\xff\0"[random() % 6]);
  if (random() % 20 == 0) key += std::string(random() % 300, 'p');
  return key;
}

KeyRange random_range(std::mt19937& random) {
  KeyRange range{random_key(random), random_key(random)};
  if (random() % 4 != 0 && range.first > *range.last) std::swap(range.first, *range.last);
  if (random() % 10 == 0) range.last.reset();
  return range;
}

void change(std::mt19937& random, Items& model, Writer::Stream& stream) {
  const auto dice = random() % 100;
  if (dice < 75) {
    const std::string key = random_key(random);
    model[key] = std::string(random() % 60, static_cast<char>(random()));
    stream.write(key, as_bytes(model[key]));
  } else if (dice < 97) {
    const std::string key = random_key(random);
    model.erase(key);
    stream.remove(key);
  } else {
    const KeyRange range = random_range(random);
    std::erase_if(model, [&](const auto& item) { return range.contains(item.first); });
    stream.remove_range(range);
  }
}

TEST_P(WriterModel, EveryVersionReadsAsItWasWritten) {
  const StorePtr base = make_memory_store();
  Config config;
  config.max_inline_value_bytes = 30;
  config.max_decoded_node_bytes = GetParam().node_bytes;
  config.version_tree_arity_log2 = GetParam().arity_log2;
  config.manifest_kind = GetParam().kind;
  config.zstd_level = GetParam().node_bytes % 2 == 0 ? std::optional(1) : std::nullopt;
  std::mt19937 random(GetParam().node_bytes + GetParam().arity_log2);
  Items model;
  std::vector<Items> versions;
  for (int round = 0; round < 70; ++round) {
    Writer writer(base, {.config = config});
    auto& stream = writer.stream();
    const auto changes = random() % (round % 7 == 0 ? 200 : 12);
    for (std::size_t i = 0; i < changes; ++i) change(random, model, stream);
    const CommittedVersion done = writer.commit();
    versions.push_back(model);
    ASSERT_EQ(done.generation, versions.size());
    ASSERT_EQ(done.num_keys, model.size());
    ASSERT_EQ(contents(*open_ocdbt(base)), model) << "generation " << done.generation;
  }
  for (std::size_t i = 0; i < versions.size(); ++i)
    ASSERT_EQ(contents(*open_ocdbt(base, {.generation = i + 1, .commit_time_ns = {}})), versions[i])
        << i;
  EXPECT_EQ(list_versions(*base, *read_database_info(*base)).size(), versions.size());
  expect_sound(base);
}

INSTANTIATE_TEST_SUITE_P(Shapes, WriterModel,
                         ::testing::Values(RandomCase{"tiny_nodes", 1, 1, ManifestKind::kSingle},
                                           RandomCase{"small_nodes", 200, 1, ManifestKind::kSingle},
                                           RandomCase{"middle", 1001, 2, ManifestKind::kSingle},
                                           RandomCase{"one_node", 0, 4, ManifestKind::kSingle},
                                           RandomCase{"numbered", 500, 2, ManifestKind::kNumbered},
                                           RandomCase{"wide", 8388608, 16,
                                                      ManifestKind::kNumbered}),
                         [](const auto& test) { return test.param.name; });

TEST(Writer, NumberedManifestsThatAreOldGo) {
  const StorePtr base = make_memory_store();
  Config config;
  config.manifest_kind = ManifestKind::kNumbered;
  for (int i = 0; i < 141; ++i) commit_items(base, {{std::to_string(i), "v"}}, {.config = config});
  const auto generations = list_numbered_manifests(*base);
  EXPECT_EQ(generations.size(), 129U);
  EXPECT_EQ(generations.front(), 13U);
  EXPECT_EQ(open_ocdbt(base)->list("").size(), 141U);
  EXPECT_EQ(open_ocdbt(base, {.generation = 1, .commit_time_ns = {}})->list("").size(), 1U);
}

TEST(Writer, CommitTimesIncrease) {
  const StorePtr base = make_memory_store();
  const WriterOptions early{.deterministic =
                                Deterministic{.uuid = {}, .seed = 1, .commit_time_ns = 500}};
  EXPECT_EQ(commit_items(base, {{"a", "1"}}, early).commit_time_ns, 500U);
  EXPECT_EQ(
      commit_items(base, {{"a", "2"}},
                   {.deterministic = Deterministic{.uuid = {}, .seed = 2, .commit_time_ns = 400}})
          .commit_time_ns,
      501U);
  EXPECT_GT(commit_items(base, {{"a", "3"}}).commit_time_ns, 1000U);
}

TEST(Writer, AConfigurationThatIsGivenMustMatch) {
  const StorePtr base = make_memory_store();
  commit_items(base, {{"a", "1"}});
  Config config;
  EXPECT_EQ(commit_items(base, {{"b", "2"}}, {.config = config}).generation, 2U)
      << "a uuid of zeros matches any";
  config.max_inline_value_bytes = 7;
  EXPECT_THAT([&] { Writer(base, {.config = config}); },
              FailsWith(Code::kFailedPrecondition, "max_inline_value_bytes"));
  config = {};
  config.manifest_kind = ManifestKind::kNumbered;
  EXPECT_THAT([&] { Writer(base, {.config = config}); },
              FailsWith(Code::kFailedPrecondition, "manifest_kind"));
  config = {};
  config.uuid = {9};
  EXPECT_THAT([&] { Writer(base, {.config = config}); },
              FailsWith(Code::kFailedPrecondition, "uuid"));
}

TEST(Writer, BuildsOnWhatOthersHaveCommittedMeanwhile) {
  const StorePtr base = make_memory_store();
  Writer slow(base, {});
  slow.stream().write("slow", as_bytes(std::string(500, 's')));
  commit_items(base, {{"quick", "q"}});
  EXPECT_EQ(slow.commit().generation, 2U);
  EXPECT_EQ(contents(*open_ocdbt(base)), (Items{{"quick", "q"}, {"slow", std::string(500, 's')}}));
}

// Lets another writer commit just before each of the first few manifests.
class RacedStore final : public testing::ForwardingStore {
 public:
  RacedStore(StorePtr base, int races)
      : ForwardingStore(base), base_(std::move(base)), races_(races) {}
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    if (races_-- > 0) commit_items(base_, {{"race" + std::to_string(races_), "r"}});
    return base_->replace_if(key, expected, value);
  }

 private:
  StorePtr base_;
  int races_;
};

TEST(Writer, TriesAgainWhenItLosesARace) {
  for (const auto kind : {ManifestKind::kSingle, ManifestKind::kNumbered}) {
    const StorePtr base = make_memory_store();
    Config config;
    config.manifest_kind = kind;
    commit_items(base, {{"first", "1"}}, {.config = config});
    const auto raced = std::make_shared<RacedStore>(base, 3);
    commit_items(raced, {{"mine", std::string(500, 'm')}});
    EXPECT_EQ(open_ocdbt(base)->list("").size(), 5U);
    EXPECT_EQ(base->list("d/").size(), 6U)
        << "nodes of lost races are removed; the first ones are in the file of the value";
    expect_sound(base);
  }
}

TEST(Writer, ManyThreadsWriteTheirStreams) {
  const cairn::testing::TempDir dir;
  const StorePtr base = open_file_store(dir.path(), Durability::kUnsynced);
  Config config;
  config.max_decoded_node_bytes = 2000;
  Writer writer(base, {.config = config, .target_data_file_size = 100000});
  Executor executor(4);
  executor.for_each(8, [&](std::size_t worker) {
    auto& stream = writer.stream();
    for (int i = 0; i < 300; ++i)
      stream.write(std::to_string(i) + "/" + std::to_string(worker),
                   as_bytes(std::string(static_cast<std::size_t>(i), 'v')));
    stream.remove("0/" + std::to_string(worker));
  });
  EXPECT_EQ(writer.commit().num_keys, 8U * 299);
  const Items found = contents(*open_ocdbt(base));
  ASSERT_EQ(found.size(), 8U * 299);
  for (const auto& [key, value] : found)
    EXPECT_EQ(std::to_string(value.size()), key.substr(0, key.find('/')));
  expect_sound(base);
}

TEST(Writer, ManyWritersOfOneFolderLoseNothing) {
  const cairn::testing::TempDir dir;
  Executor executor(4);
  executor.for_each(4, [&](std::size_t worker) {
    const StorePtr base = open_file_store(dir.path(), Durability::kUnsynced);
    for (int i = 0; i < 25; ++i)
      commit_items(base,
                   {{std::to_string(worker) + "/" + std::to_string(i), std::string(200, 'v')}});
  });
  const StorePtr base = open_file_store(dir.path());
  EXPECT_EQ(open_ocdbt(base)->list("").size(), 100U);
  EXPECT_EQ(read_database_info(*base)->newest()->generation, 100U);
  expect_sound(base);
}

TEST(Writer, LeavesNothingWhenItIsDropped) {
  const cairn::testing::TempDir dir;
  const StorePtr base = open_file_store(dir.path());
  {
    Writer writer(base, {.target_data_file_size = 1000});
    write_all(writer.stream(), numbered_items(20, 500));
  }
  EXPECT_TRUE(base->list("").empty());
}

TEST(Writer, CopiesDatabasesByReference) {
  const StorePtr base = make_memory_store();
  Config child;
  child.max_inline_value_bytes = 1000;
  child.max_decoded_node_bytes = 500;
  Items all;
  for (const std::string name : {"p_0/", "p_1/"}) {
    Items items = {{"shared", "of " + name}, {name + "inline", std::string(300, 'i')}};
    for (int i = 0; i < 40; ++i)
      items[name + std::to_string(i)] = std::string(2000, static_cast<char>('a' + i % 26));
    commit_items(prefix_store(base, name), items, {.config = child});
    for (const auto& [key, value] : items) all[key] = value;
  }
  const auto bytes = [&] {
    std::uint64_t sum = 0;
    for (const auto& entry : base->list("")) sum += entry.size;
    return sum;
  };
  const auto before = bytes();
  Writer writer(base, {});
  writer.copy_database("p_0/");
  writer.copy_database("p_1/");
  EXPECT_THAT([&] { writer.copy_database("p_2/"); },
              FailsWith(Code::kNotFound, "p_2/manifest.ocdbt"));
  EXPECT_EQ(writer.commit().num_keys, all.size());
  EXPECT_LT(bytes() - before, 10000U) << "no values but the inline ones over the limit";
  EXPECT_EQ(contents(*open_ocdbt(base)), all) << "of a key in both, the later copy counts";
  expect_sound(base);

  // Once more, from a folder above.
  const StorePtr top = make_memory_store();
  for (const auto& [key, value] : contents(*base)) top->write("inner/" + key, as_bytes(value));
  Writer outer(top, {});
  outer.copy_database("inner/");
  outer.stream().write("own", as_bytes("o"));
  outer.commit();
  all["own"] = "o";
  EXPECT_EQ(contents(*open_ocdbt(top)), all);
  commit_items(top, {{"p_0/7", "replaced"}});
  all["p_0/7"] = "replaced";
  EXPECT_EQ(contents(*open_ocdbt(top)), all);
  expect_sound(top);
}

// A store that counts what goes through it.
class CountingStore final : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    auto value = ForwardingStore::read(key, range);
    if (value) bytes_read += value->size();
    return value;
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    auto value = ForwardingStore::read_at_most(key, most);
    if (value) bytes_read += value->size();
    return value;
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    bytes_read += out.size();
    return ForwardingStore::read_into(key, offset, out);
  }
  // would go unseen
  std::optional<SharedBytes> map(std::string_view /*key*/) const override { return std::nullopt; }

  mutable std::atomic<std::uint64_t> bytes_read = 0;
};

TEST(Writer, MovesNoValuesOfManyDatabases) {
  constexpr int kDatabases = 64;
  constexpr int kKeys = 10'000 / cairn::testing::kFewer;
  const std::string value(101, 'v');  // one byte too many to be inline
  const StorePtr base = make_memory_store();
  for (int d = 0; d < kDatabases; ++d) {
    Writer writer(prefix_store(base, "p_" + std::to_string(d) + "/"), {});
    Writer::Stream& stream = writer.stream();
    for (int k = 0; k < kKeys; ++k)
      stream.write("layer_" + std::to_string(k) + "/" + std::to_string(d), as_bytes(value));
    writer.commit();
  }
  const auto size = [&] {
    std::uint64_t sum = 0;
    for (const auto& entry : base->list("")) sum += entry.size;
    return sum;
  };
  const std::uint64_t before = size();
  const std::uint64_t values = value.size() * kDatabases * kKeys;
  const auto counting = std::make_shared<CountingStore>(base);
  Writer writer(counting, {});
  for (int d = 0; d < kDatabases; ++d) writer.copy_database("p_" + std::to_string(d) + "/");
  EXPECT_EQ(writer.commit().num_keys, std::uint64_t{kDatabases} * kKeys);
  EXPECT_GT(counting->bytes_read, 0U);
  EXPECT_LE(counting->bytes_read, before - values) << "nodes and manifests alone";
  EXPECT_LT(size() - before, values / 10);
  EXPECT_EQ(open_ocdbt(base)->read("layer_77/63", {}),
            Bytes(as_bytes(value).begin(), as_bytes(value).end()));
}

TEST(Writer, DoesNotPromiseValuesThatAreGone) {
  const StorePtr base = make_memory_store();
  commit_items(prefix_store(base, "p/"), {{"k", std::string(500, 'v')}});
  const std::string file = base->list("p/d/").front().key;
  const Bytes whole = base->read(file, {}).value();
  // The node lies behind the value, so a shorter file would lose the node first: the value must
  // claim more.
  base->remove(file);
  Writer writer(base, {});
  EXPECT_THAT([&] { writer.copy_database("p/"); }, FailsWith(Code::kDataLoss, "missing"));
}

TEST(Split, CutsWhereTheTargetIsReached) {
  const std::vector<std::uint64_t> ten(10, 10);
  EXPECT_THAT(split_entries(ten, {.max_bytes = 0}), ElementsAre(10));
  EXPECT_THAT(split_entries(ten, {.max_bytes = 100}), ElementsAre(10));
  EXPECT_THAT(split_entries(ten, {.max_bytes = 99}), ElementsAre(5, 10));
  EXPECT_THAT(split_entries(ten, {.max_bytes = 30}), ElementsAre(3, 6, 8, 10));
  EXPECT_THAT(split_entries(ten, {.max_bytes = 1}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(split_entries(ten, {.max_bytes = 1, .min_entries = 2}), ElementsAre(2, 4, 6, 8, 10));
  EXPECT_THAT(split_entries(ten, {.max_bytes = 64, .min_entries = 1, .shared_by_all = 4}),
              ElementsAre(10));
  EXPECT_THAT(split_entries(std::vector<std::uint64_t>{93, 125, 128}, {.max_bytes = 150}),
              ElementsAre(1, 3))
      << "the last may be too large";
  EXPECT_TRUE(split_entries({}, {}).empty());
  const std::vector<std::uint64_t> many(kMaxNodeEntries + 1, 20);
  EXPECT_EQ(split_entries(many, {}).size(), 2U);
}

}  // namespace
}  // namespace cairn::ocdbt
