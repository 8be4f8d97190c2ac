// verify_test.cc -- each kind of damage is found, named with its file, and does not hide the next one.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/checkpoint/golden_copy.h"

namespace cairn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::fact;
using testing::golden;
using testing::GoldenCopy;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::open_uncommitted;
namespace fs = std::filesystem;

std::vector<std::string> texts(const VerifyReport& report, Severity severity) {
  std::vector<std::string> all;
  for (const auto& f : report.findings)
    if (f.severity == severity) all.push_back(f.tensor + " | " + f.file + " | " + f.message);
  return all;
}
std::vector<std::string> damages(const std::string& path) { return texts(open_orbax(path)->verify({}), Severity::kDamage); }
std::vector<std::string> notes(const std::string& path) { return texts(open_orbax(path)->verify({}), Severity::kNote); }

TEST(Verify, CountsWhatItLooksAt) {
  std::uint64_t done = 0, total = 0;
  const VerifyReport report =
      open_orbax(golden("tiny_ocdbt_zarr2"))->verify([&](std::uint64_t d, std::uint64_t t) { done = d, total = t; });
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.tensors, 4U);  // big, n, s, w; an empty node has nothing to look at
  EXPECT_EQ(report.chunks, 3U);
  EXPECT_GT(report.bytes, 1040U);
  EXPECT_EQ(total, 1040U + 8 + 24);
  EXPECT_EQ(done, total);
}

// What lies inside a database's node is covered by the node's checksum, a value outside of it only by its own.
TEST(Verify, NamesWhatNoChecksumCovers) {
  EXPECT_THAT(open_orbax(golden("tiny_ocdbt_zarr2"))->verify({}).unprotected, ElementsAre("big"));
  EXPECT_THAT(open_orbax(golden("tiny_files_raw"))->verify({}).unprotected, ElementsAre("big", "n", "w"));
}

TEST(Verify, DamagedAndMissingChunks) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.put("w/0.0", "junk");
  copy.remove("n/0");
  copy.put("big/0", copy.text("big/0").substr(0, 500));
  const auto found = damages(copy.path());
  EXPECT_EQ(found.size(), 3U);
  EXPECT_THAT(found, Contains(HasSubstr("w | " + copy / "w/0.0")));
  EXPECT_THAT(found, Contains("n |  | chunk 0: the chunk is missing"));
  EXPECT_THAT(found, Contains(HasSubstr("big | " + copy / "big/0")));
}

TEST(Verify, MissingArraysAndStrings) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.remove("w");
  copy.put("n/.zarray", "{}");
  copy.put("_strings.json", "{}");
  const auto found = damages(copy.path());
  EXPECT_THAT(found, Contains("w |  | no array is stored under this name"));
  EXPECT_THAT(found, Contains(HasSubstr("n/.zarray")));
  EXPECT_THAT(found, Contains("s |  | it is not in _strings.json"));
}

TEST(Verify, DamagedDatabases) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  const std::string node = copy.only_file("d");
  std::string bytes = copy.text(node);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  copy.put(node, bytes);
  EXPECT_THAT(damages(copy.path()), Contains(HasSubstr(copy / node)));
}

TEST(Verify, AManifestIsFoundDamagedOnce) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  const std::string manifest = copy / "manifest.ocdbt";
  std::string bytes = copy.text("manifest.ocdbt");
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  copy.put("manifest.ocdbt", bytes);
  EXPECT_THAT(damages(copy.path()),
              ElementsAre(::testing::AllOf(::testing::StartsWith(" | " + manifest + " | CRC-32C checksum mismatch: stored "),
                                           ::testing::EndsWith("; so 3 arrays cannot be read"))));
  EXPECT_THAT(open_orbax(copy.path())->info("w").error, ::testing::StartsWith(manifest + ": CRC-32C"));
  EXPECT_THAT(fact(*open_orbax(copy.path()), "UNREADABLE"), ::testing::StartsWith(manifest + ": CRC-32C"));
  copy.remove("manifest.ocdbt");
  EXPECT_THAT(damages(copy.path()), ElementsAre(" | " + manifest + " | the database's manifest is missing; so 3 arrays cannot be read"));
}

TEST(Verify, EachItemsManifestIsFoundDamaged) {
  const GoldenCopy copy("composite");
  copy.put("params/manifest.ocdbt", "x");
  copy.put("state/manifest.ocdbt", "x");
  EXPECT_THAT(damages(copy.path()), ElementsAre(HasSubstr(copy / "params/manifest.ocdbt"), HasSubstr(copy / "state/manifest.ocdbt")));
}

TEST(Verify, DamagedDatabaseOfAProcess) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.put("ocdbt.process_0/manifest.ocdbt", "x");
  const auto found = damages(copy.path());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0], HasSubstr(copy / "ocdbt.process_0/manifest.ocdbt"));
}

TEST(Verify, MissingDataFiles) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.remove("ocdbt.process_0/d");
  const auto found = damages(copy.path());
  EXPECT_THAT(found, Contains(HasSubstr("ocdbt.process_0/d/")));
  EXPECT_THAT(found, Contains(::testing::StartsWith("big | ")));
  EXPECT_THAT(found, Not(Contains(::testing::StartsWith("w | "))));  // inside the merged database's own node
}

TEST(Verify, WhatBelongsToNothingIsANote) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.put("d/00112233445566778899aabbccddeeff", "garbage");
  copy.put("ocdbt_data/00112233445566778899aabbccddeeff", "more");
  copy.put("manifest.ocdbt.__lock", "");
  copy.put("README", "mine");
  EXPECT_THAT(damages(copy.path()), IsEmpty());
  EXPECT_THAT(notes(copy.path()), ElementsAre(" | " + copy / "README" + " | nothing refers to this file",
                                              " | " + copy / "manifest.ocdbt.__lock" + " | a lock file was left behind",
                                              " | " + copy / "d/" + " | 1 data file that nothing refers to any more (7 bytes)",
                                              " | " + copy / "ocdbt_data/" + " | 1 data file that nothing refers to any more (4 bytes)"));
}

TEST(Verify, ArraysThatNoLeafNames) {
  const GoldenCopy files("tiny_files_zarr2");
  fs::copy(files / "w", files / "other", fs::copy_options::recursive);
  EXPECT_THAT(notes(files.path()), ElementsAre("other |  | this array is stored, but no leaf of the tree has its name"));
  const GoldenCopy database("tiny_ocdbt_zarr2");
  database.edit("_METADATA", R"("key": "w")", R"("key": "v")");
  EXPECT_THAT(damages(database.path()), ElementsAre("v |  | no array is stored under this name"));
  EXPECT_THAT(notes(database.path()), Contains("w |  | this array is stored, but no leaf of the tree has its name"));
}

TEST(Verify, ChunksWithoutMetadataWhereNamesAreAllThereIs) {
  const GoldenCopy copy("no_metadata_files");
  copy.remove("a.b/.zarray");
  EXPECT_THAT(damages(copy.path()), ElementsAre("a.b |  | chunks are stored under this name, but no .zarray or zarr.json"));
}

TEST(Verify, SideFiles) {
  const struct {
    const char* file;
    std::string text;
    const char* tensor;
    const char* expect;
  } kBad[] = {
      {"_sharding", "{", "", "unexpected end"},
      {"_sharding", R"({"dw==":"{"})", "w", "is no JSON"},
      {"_sharding", R"({"dw==":"{}"})", "w", "no 'sharding_type'"},
      {"_strings.json", "[]", "", "an object expected"},
      {"_CHECKPOINT_METADATA", "[]", "", "an object expected"},
      {"array_metadatas/process_0", "{}", "", "no 'array_metadatas'"},
      {"array_metadatas/process_1", R"({"array_metadatas": []})", "", "all processes must agree"},
      {"array_metadatas/process_0",
       R"({"array_metadatas": [{"array_metadata": {"param_name": "w", "write_shape": [2, 3], "chunk_shape": [1, 3]}}]})", "w",
       "says that chunks have shape (1, 3); the array's have (2, 3)"},
      {"array_metadatas/process_0",
       R"({"array_metadatas": [{"array_metadata": {"param_name": "w", "write_shape": [2], "chunk_shape": [2, 3]}}]})", "w",
       "gives a write shape (2,) for an array of shape (2, 3)"},
  };
  for (const auto& bad : kBad) {
    const GoldenCopy copy("tiny_ocdbt_zarr2");
    copy.put(bad.file, bad.text);
    const VerifyReport report = open_orbax(copy.path())->verify({});
    const bool found = std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
      return f.severity == Severity::kDamage && f.tensor == bad.tensor && f.file == copy / bad.file &&
             f.message.find(bad.expect) != std::string::npos;
    });
    EXPECT_TRUE(found) << bad.file << " " << bad.expect << "\n" << ::testing::PrintToString(texts(report, Severity::kDamage));
  }
}

TEST(Verify, SideFilesThatSpeakOfOthersAreNotes) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.put("_sharding", R"({"eA==":"{\"sharding_type\": \"x\"}"})");
  copy.put("_strings.json", R"({"s":"text","t":"more"})");
  EXPECT_THAT(damages(copy.path()), IsEmpty());
  EXPECT_THAT(notes(copy.path()), ElementsAre(HasSubstr("a sharding is recorded for a name that no leaf has"),
                                              HasSubstr("a text is stored that no string leaf has the name of")));
}

TEST(Verify, JsonItemsOfAComposite) {
  const GoldenCopy copy("composite_one_item");
  copy.put("config/metadata", "{");
  EXPECT_THAT(damages(copy.path()), ElementsAre(HasSubstr(copy / "config/metadata")));
  copy.remove("config");
  EXPECT_THAT(damages(copy.path()), IsEmpty());
  EXPECT_THAT(notes(copy.path()), Contains(HasSubstr("item 'config' is recorded, but there is no folder of that name")));
}

TEST(Verify, SeveralItemsNameTheirs) {
  const GoldenCopy copy("composite");
  copy.remove("array/checkpoint/0");
  EXPECT_THAT(damages(copy.path()), ElementsAre(::testing::StartsWith("array/checkpoint | ")));
}

TEST(Verify, UncommittedIsNoted) {
  const auto report = open_uncommitted(golden("uncommitted/2.orbax-checkpoint-tmp"))->verify({});
  EXPECT_FALSE(report.damaged());
  EXPECT_THAT(texts(report, Severity::kNote), Contains(HasSubstr("not committed: its name has the mark")));
}

}  // namespace
}  // namespace cairn
