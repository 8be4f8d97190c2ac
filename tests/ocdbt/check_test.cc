// The structure check: what it finds in databases that are damaged, and that it goes on after the
// first.
#include <cairn/ocdbt/format/envelope.h>
#include <cairn/ocdbt/read/check.h>
#include <cairn/ocdbt/read/versions.h>
#include <gmock/gmock.h>

#include "tests/ocdbt/support.h"
#include "tests/support/damage.h"

namespace cairn::ocdbt {
namespace {

using testing::Builder;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

struct Outcome {
  VerifyReport report;
  std::set<std::string> files;

  // "file@offset: message" of every finding.
  [[nodiscard]] std::vector<std::string> texts() const {
    std::vector<std::string> out;
    for (const auto& f : report.findings)
      out.push_back(f.file + "@" + std::to_string(f.offset) + ": " + f.message);
    return out;
  }
};
Outcome check(const StorePtr& base) {
  Outcome outcome;
  check_database(base, outcome.report, outcome.files);
  return outcome;
}

// A golden database in memory, to be damaged.
StorePtr copy_of(const std::string& name) {
  const auto base = open_file_store(testing::golden_path(name));
  auto copy = make_memory_store();
  for (const auto& entry : base->list(""))
    copy->write(entry.key, base->read(entry.key, {}).value());
  return copy;
}
void flip(const StorePtr& store, const std::string& key, std::uint64_t offset) {
  store->write(key, cairn::testing::with_bit_flipped(store->read(key, {}).value(), offset * 8));
}

TEST(Check, NothingIsNoDatabase) {
  const Outcome outcome = check(make_memory_store());
  EXPECT_TRUE(outcome.report.findings.empty());
  EXPECT_TRUE(outcome.files.empty());
}

TEST(Check, ManifestDamaged) {
  const StorePtr base = copy_of("plain");
  flip(base, "manifest.ocdbt", 20);
  const Outcome outcome = check(base);
  EXPECT_THAT(
      outcome.texts(),
      UnorderedElementsAre(HasSubstr("memory://manifest.ocdbt@0: CRC-32C checksum mismatch")));
  EXPECT_THAT(outcome.files, UnorderedElementsAre("manifest.ocdbt"));
}

TEST(Check, EachDamagedNumberedManifestIsNamed) {
  const StorePtr base = copy_of("numbered");
  flip(base, "manifest.0000000000000003", 20);
  flip(base, "manifest.0000000000000005", 20);
  const Outcome outcome = check(base);
  EXPECT_THAT(outcome.texts(), UnorderedElementsAre(HasSubstr("manifest.0000000000000003@0: "),
                                                    HasSubstr("manifest.0000000000000005@0: ")));
  EXPECT_EQ(outcome.files.size(), base->list("").size());
}

// Every node of every version, damaged one at a time, is named with its file and offset.
TEST(Check, EveryDamagedNodeIsNamed) {
  for (const char* name :
       {"zstd_levels", "many_versions", "prefixes", "numbered", "merged_levels"}) {
    for (const auto& object : testing::load_golden(name).objects) {
      if (!object.range) continue;
      const StorePtr base = copy_of(name);
      flip(base, object.file, object.range->offset + 16);
      const Outcome outcome = check(base);
      const std::string expected =
          "memory://" + object.file + "@" + std::to_string(object.range->offset) + ": ";
      EXPECT_THAT(outcome.texts(), UnorderedElementsAre(HasSubstr(expected))) << name;
    }
  }
}

TEST(Check, GoesOnAfterAMissingFile) {
  const StorePtr base = copy_of("many_versions");
  const auto info = read_database_info(*base).value();
  const std::string gone = list_versions(*base, info)[10].root.file.path;
  base->remove(gone);
  const Outcome outcome = check(base);
  EXPECT_THAT(outcome.texts(), Contains(HasSubstr("memory://" + gone)));
  EXPECT_THAT(outcome.files, Contains(gone));
  EXPECT_GT(outcome.files.size(), 20U);  // all but what only that file led to
}

TEST(Check, ValuesOfTheNewestVersionAreInTheirFiles) {
  const StorePtr base = make_memory_store();
  Builder build(base);
  BtreeNode root;
  root.files = {{"", "d/v"}, {"", "d/gone"}, {"", "../x"}};
  build.append("d/v", as_bytes("12345"));
  root.add_out_of_line("a", {0, 0, 5});
  root.add_out_of_line("b", {0, 1, 5});
  root.add_out_of_line("c", {0, 6, 0});
  root.add_out_of_line("d", {1, 2, 3});
  root.add_out_of_line("e", {2, 2, 3});
  root.add_inline("f", as_bytes("inline"));
  build.publish({"", "d/n"}, build.append("d/n", root), 0);
  const Outcome outcome = check(base);
  EXPECT_THAT(
      outcome.texts(),
      UnorderedElementsAre(
          HasSubstr("memory://d/v@1: value of 'b': 5 bytes at offset 1, but the data file has 5"),
          HasSubstr("memory://d/v@6: value of 'c': 0 bytes at offset 6"),
          HasSubstr("memory://d/gone@2: value of 'd': the data file is missing"),
          HasSubstr("memory://d/n@0: value of 'e': data file path '../x'")));
  EXPECT_THAT(outcome.files, UnorderedElementsAre("manifest.ocdbt", "d/n", "d/v", "d/gone"));
}

TEST(Check, ANodeSharedByVersionsIsReadOnceAndCheckedForEach) {
  const StorePtr base = make_memory_store();
  Builder build(base);
  BtreeNode leaf;
  leaf.add_inline("b", {});
  const DataRef shared = build.append("d/n", leaf);
  const auto root_over = [&](std::string_view key) {
    BtreeNode root;
    root.height = 1;
    root.files = {{"", "d/n"}};
    root.add_child(key, {.location = shared, .statistics = {}, .subtree_common_prefix_length = 0});
    return build.append("d/n", root);
  };
  Manifest manifest;
  manifest.files = {{"", "d/n"}};
  manifest.versions = {{.generation = 1,
                        .root_height = 1,
                        .root = root_over("c"),
                        .statistics = {},
                        .commit_time_ns = 1},
                       {.generation = 2,
                        .root_height = 1,
                        .root = root_over("b"),
                        .statistics = {},
                        .commit_time_ns = 2},
                       {.generation = 3,
                        .root_height = 1,
                        .root = root_over("a"),
                        .statistics = {},
                        .commit_time_ns = 3}};
  base->write(kManifestKey, encode_manifest(manifest));
  const Outcome outcome = check(base);
  EXPECT_THAT(outcome.texts(),
              UnorderedElementsAre(HasSubstr("first key 'b' is less than inclusive_min 'c'")));
  EXPECT_EQ(outcome.report.bytes, base->size("d/n").value() + base->size("manifest.ocdbt").value());
}

TEST(Check, ATreeThatIsTooManyPathsIsWalkedOnce) {
  const StorePtr base = make_memory_store();
  Builder build(base);
  BtreeNode leaf;
  leaf.add_inline("a", {});
  DataRef below = build.append("d/n", leaf);
  for (std::uint8_t height = 1; height < 60; ++height) {
    BtreeNode node;
    node.height = height;
    node.files = {{"", "d/n"}};
    for (const char* key : {"aa", "ba"})
      node.add_child(key, {.location = below, .statistics = {}, .subtree_common_prefix_length = 1});
    below = build.append("d/n", node);
  }
  build.publish({"", "d/n"}, below, 59);
  EXPECT_TRUE(check(base).report.findings.empty());
}

}  // namespace
}  // namespace cairn::ocdbt
