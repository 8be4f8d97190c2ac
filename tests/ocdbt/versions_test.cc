// Choosing a manifest and a version, in databases whose parts do not fit together.
#include <cairn/ocdbt/read/versions.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/ocdbt/support.h"
#include "tests/support/matchers.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::FailsWith;

// Versions 1 .. 3 with A = 2: two in a leaf below one node of height 1, one inline. Every tree is
// empty.
class VersionTreeTest : public ::testing::Test {
 protected:
  VersionTreeTest() {
    leaf_.arity_log2 = inner_.arity_log2 = 1;
    leaf_.versions = {{.generation = 1, .commit_time_ns = 10},
                      {.generation = 2, .commit_time_ns = 20}};
    leaf_.files = {{"", ""}};
    inner_.height = 1;
    inner_.files = {{"", "d/v"}};
    manifest_.config.version_tree_arity_log2 = 1;
    manifest_.files = {{"", ""}, {"", "d/v"}};
    manifest_.versions = {{.generation = 3, .commit_time_ns = 30}};
  }
  void write() {
    testing::Builder build(base_);
    DataRef leaf = build.append("d/v", encode_version_node(leaf_, std::nullopt));
    inner_.children = {{.generation = 2,
                        .location = leaf,
                        .num_generations = 2,
                        .commit_time_ns = 10,
                        .height = 0}};
    DataRef inner = build.append("d/v", encode_version_node(inner_, std::nullopt));
    inner.file = 1;
    manifest_.version_nodes = {{.generation = 2,
                                .location = inner,
                                .num_generations = 2,
                                .commit_time_ns = 10,
                                .height = 1}};
    base_->write(kManifestKey, encode_manifest(manifest_));
  }
  void expect_damage(const std::string& text) {
    write();
    EXPECT_THAT([&] { open_ocdbt(base_, {.generation = 1, .commit_time_ns = {}}); },
                FailsWith(Code::kDataLoss, text));
    EXPECT_THAT([&] { open_ocdbt(base_, {.generation = {}, .commit_time_ns = 10}); },
                FailsWith(Code::kDataLoss, text));
    EXPECT_NO_THROW(open_ocdbt(base_));  // needs no version node
    EXPECT_NO_THROW(open_ocdbt(base_, {.generation = 3, .commit_time_ns = {}}));
  }

  StorePtr base_ = make_memory_store();
  VersionNode leaf_, inner_;
  Manifest manifest_;
};

TEST_F(VersionTreeTest, FindsVersions) {
  write();
  const auto info = read_database_info(*base_);
  const auto generation_at = [&](std::uint64_t time) -> std::uint64_t {
    const auto found = find_version(*base_, *info, {.generation = {}, .commit_time_ns = time});
    return found ? found->version.generation : 0;
  };
  EXPECT_EQ(generation_at(9), 0U);
  EXPECT_EQ(generation_at(10), 1U);
  EXPECT_EQ(generation_at(19), 1U);
  EXPECT_EQ(generation_at(20), 2U);
  EXPECT_EQ(generation_at(29), 2U);
  EXPECT_EQ(generation_at(30), 3U);
  EXPECT_EQ(generation_at(~std::uint64_t{0}), 3U);
  EXPECT_EQ(list_versions(*base_, *info).size(), 3U);
}

TEST_F(VersionTreeTest, GapsAreNotFound) {
  leaf_.versions.erase(leaf_.versions.begin());
  write();
  EXPECT_THAT([&] { open_ocdbt(base_, {.generation = 1, .commit_time_ns = {}}); },
              FailsWith(Code::kNotFound, "no generation 1"));
  EXPECT_NO_THROW(open_ocdbt(base_, {.generation = 2, .commit_time_ns = {}}));
}

TEST_F(VersionTreeTest, ChildOfAnotherArity) {
  inner_.arity_log2 = 2;
  leaf_.arity_log2 = 2;
  inner_.height = 0;  // a leaf of arity 4 may end with generation 2, an interior node may not
  inner_.versions = leaf_.versions;
  inner_.files = leaf_.files;
  expect_damage("expected height of 1 but received: 0");
}

TEST_F(VersionTreeTest, LeafOfAnotherArity) {
  leaf_.arity_log2 = 2;
  expect_damage("expected version_tree_arity_log2=1 but received: 2");
}

TEST_F(VersionTreeTest, LeafOfOtherGenerations) {
  leaf_.versions = {{.generation = 3, .commit_time_ns = 10},
                    {.generation = 4, .commit_time_ns = 20}};
  expect_damage("expected generation number 2 but received: 4");
}

TEST_F(VersionTreeTest, NodeMissing) {
  write();
  base_->remove("d/v");
  EXPECT_THAT([&] { open_ocdbt(base_, {.generation = 1, .commit_time_ns = {}}); },
              FailsWith(Code::kDataLoss, "version tree node in memory://d/v ["));
  EXPECT_NO_THROW(open_ocdbt(base_));
}

TEST_F(VersionTreeTest, OnlyTheWayToAVersionIsRead) {
  const auto base = std::make_shared<testing::CountingStore>(
      open_file_store(testing::golden_path("many_versions")));
  (void)open_ocdbt(base);
  EXPECT_EQ(base->reads(), 1U);
  (void)open_ocdbt(base, {.generation = 38, .commit_time_ns = {}});
  EXPECT_EQ(base->reads(), 1U);
  // in a leaf below a node of height 1
  (void)open_ocdbt(base, {.generation = 36, .commit_time_ns = {}});
  EXPECT_EQ(base->reads(), 3U);
  // in a leaf below nodes of heights 5 .. 1
  (void)open_ocdbt(base, {.generation = 1, .commit_time_ns = {}});
  EXPECT_LE(base->reads(), 7U);
}

// ---- numbered manifests ----

class NumberedTest : public ::testing::Test {
 protected:
  NumberedTest() {
    config_.config.manifest_kind = ManifestKind::kNumbered;
    base_->write(kManifestKey, encode_manifest(config_));
  }
  // A numbered manifest with one version and no tree.
  static Manifest state(std::uint64_t generation) {
    Manifest manifest;
    manifest.files = {{"", ""}};
    manifest.versions = {{.generation = generation, .commit_time_ns = generation}};
    return manifest;
  }
  void write(std::uint64_t number, const Manifest& manifest) {
    base_->write(numbered_manifest_key(number), encode_manifest(manifest));
  }

  StorePtr base_ = make_memory_store();
  Manifest config_;
};

TEST_F(NumberedTest, NoneIsAnEmptyDatabase) {
  EXPECT_EQ(open_ocdbt(base_)->list("").size(), 0U);
  EXPECT_THAT([&] { open_ocdbt(base_, {.generation = 1, .commit_time_ns = {}}); },
              FailsWith(Code::kNotFound, "no generation 1"));
  const auto info = read_database_info(*base_).value();
  EXPECT_EQ(info.kind, ManifestKind::kNumbered);
  EXPECT_EQ(info.manifest_key, "");
  EXPECT_EQ(info.newest(), nullptr);
}

TEST_F(NumberedTest, TheHighestCounts) {
  for (const std::uint64_t g : {7, 9, 10}) write(g, state(g));
  base_->write("manifest.0000000000000zzz", {});
  base_->write("manifest.00000000000000011", {});
  base_->write("manifest.0000000000000011.__lock", {});
  const auto info = read_database_info(*base_).value();
  EXPECT_EQ(info.manifest_key, "manifest.000000000000000a");
  EXPECT_EQ(info.newest()->generation, 10U);
  EXPECT_EQ(list_numbered_manifests(*base_), (std::vector<std::uint64_t>{7, 9, 10}));
}

TEST_F(NumberedTest, MismatchesAreRefused) {
  const struct {
    const char* name;
    std::function<void(Manifest&)> spoil;
    Code code;
    const char* expect;
  } table[] = {
      {"generation", [](Manifest& m) { m.versions[0].generation = 6; }, Code::kDataLoss,
       "expected generation number 5 but received: 6"},
      {"kind", [](Manifest& m) { m.config.manifest_kind = ManifestKind::kNumbered; },
       Code::kDataLoss, "expected single-file manifest kind"},
      {"uuid", [](Manifest& m) { m.config.uuid[3] = 1; }, Code::kFailedPrecondition,
       "configuration mismatch on uuid"},
      {"limit", [](Manifest& m) { m.config.max_inline_value_bytes = 1; }, Code::kFailedPrecondition,
       "configuration mismatch on max_inline_value_bytes"},
  };
  for (const auto& row : table) {
    SCOPED_TRACE(row.name);
    Manifest manifest = state(5);
    row.spoil(manifest);
    write(5, manifest);
    EXPECT_THAT([&] { open_ocdbt(base_); }, FailsWith(row.code, row.expect));
    EXPECT_THAT([&] { open_ocdbt(base_); },
                FailsWith(row.code, "memory://manifest.0000000000000005: "));
  }
}

// A store in which the newest manifest is deleted between being listed and being read, `times`
// times over.
class VanishingStore final : public testing::ForwardingStore {
 public:
  VanishingStore(StorePtr base, int times) : ForwardingStore(std::move(base)), times_(times) {}
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    if (!numbered_manifest_generation(key) || times_ == 0)
      return ForwardingStore::read_at_most(key, most);
    --times_;
    return std::nullopt;
  }

 private:
  mutable int times_;
};

TEST_F(NumberedTest, AVanishedManifestIsLookedForAgain) {
  write(5, state(5));
  EXPECT_EQ(read_database_info(VanishingStore(base_, 3))->newest()->generation, 5U);
  EXPECT_THAT([&] { (void)read_database_info(VanishingStore(base_, 1000)); },
              FailsWith(Code::kUnavailable, "vanished 100 times"));
}

}  // namespace
}  // namespace cairn::ocdbt
