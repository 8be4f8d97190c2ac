// verify_test.cc -- each kind of damage is found, named with its file, and does not hide the next
// one.
#include <cairn/diff.h>
#include <cairn/inspect.h>
#include <cairn/orbax/sharding.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/ocdbt.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/orbax/golden_copy.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::fact;
using testing::FailsWith;
using testing::golden;
using testing::GoldenCopy;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::open_uncommitted;
using testing::TempDir;
namespace fs = std::filesystem;

std::vector<std::string> texts(const VerifyReport& report, Severity severity) {
  std::vector<std::string> all;
  for (const auto& f : report.findings)
    if (f.severity == severity) all.push_back(f.tensor + " | " + f.file + " | " + f.message);
  return all;
}
std::vector<std::string> damages(const std::string& path) {
  return texts(open_orbax(path)->verify({}), Severity::kDamage);
}
std::vector<std::string> notes(const std::string& path) {
  return texts(open_orbax(path)->verify({}), Severity::kNote);
}

TEST(Verify, CountsWhatItLooksAt) {
  std::uint64_t done = 0, total = 0;
  const VerifyReport report =
      open_orbax(golden("tiny_ocdbt_zarr2"))->verify([&](std::uint64_t d, std::uint64_t t) {
        done = d, total = t;
      });
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.tensors, 4U);  // big, n, s, w; an empty node has nothing to look at
  EXPECT_EQ(report.chunks, 3U);
  EXPECT_GT(report.bytes, 1040U);
  EXPECT_EQ(total, 1040U + 8 + 24);
  EXPECT_EQ(done, total);
}

// What lies inside a database's node is covered by the node's checksum, a value outside of it only
// by its own.
TEST(Verify, NamesWhatNoChecksumCovers) {
  EXPECT_THAT(open_orbax(golden("tiny_ocdbt_zarr2"))->verify({}).unprotected, ElementsAre("big"));
  EXPECT_THAT(open_orbax(golden("tiny_files_raw"))->verify({}).unprotected,
              ElementsAre("big", "n", "w"));
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
              ElementsAre(::testing::AllOf(
                  ::testing::StartsWith(" | " + manifest + " | CRC-32C checksum mismatch: stored "),
                  ::testing::EndsWith("; so 3 arrays cannot be read"))));
  EXPECT_THAT(open_orbax(copy.path())->info("w").error,
              ::testing::StartsWith(manifest + ": CRC-32C"));
  EXPECT_THAT(fact(*open_orbax(copy.path()), "UNREADABLE"),
              ::testing::StartsWith(manifest + ": CRC-32C"));
  copy.remove("manifest.ocdbt");
  EXPECT_THAT(damages(copy.path()),
              ElementsAre(" | " + manifest +
                          " | the database's manifest is missing; so 3 arrays cannot be read"));
}

TEST(Verify, EachItemsManifestIsFoundDamaged) {
  const GoldenCopy copy("composite");
  copy.put("params/manifest.ocdbt", "x");
  copy.put("state/manifest.ocdbt", "x");
  EXPECT_THAT(damages(copy.path()), ElementsAre(HasSubstr(copy / "params/manifest.ocdbt"),
                                                HasSubstr(copy / "state/manifest.ocdbt")));
}

// The merged database has copied what it says; a restore reads it no more.
TEST(Verify, TheDamagedDatabaseOfAProcessIsANote) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.put("ocdbt.process_0/manifest.ocdbt", "x");
  EXPECT_THAT(damages(copy.path()), IsEmpty());
  EXPECT_THAT(notes(copy.path()),
              Contains(::testing::AllOf(HasSubstr(copy / "ocdbt.process_0/manifest.ocdbt"),
                                        HasSubstr("(the merged database does not need it)"))));
}

TEST(Verify, MissingDataFiles) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.remove("ocdbt.process_0/d");
  const auto found = damages(copy.path());
  EXPECT_THAT(found, Contains(HasSubstr("ocdbt.process_0/d/")));
  EXPECT_THAT(found, Contains(::testing::StartsWith("big | ")));
  // inside the merged database's own node
  EXPECT_THAT(found, Not(Contains(::testing::StartsWith("w | "))));
}

TEST(Verify, NotesUnreferencedFiles) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.put("d/00112233445566778899aabbccddeeff", "garbage");
  copy.put("ocdbt_data/00112233445566778899aabbccddeeff", "more");
  copy.put("manifest.ocdbt.__lock", "");
  copy.put("README", "mine");
  EXPECT_THAT(damages(copy.path()), IsEmpty());
  EXPECT_THAT(notes(copy.path()),
              ElementsAre(" | " + copy / "README" + " | nothing refers to this file",
                          " | " + copy / "manifest.ocdbt.__lock" + " | a lock file was left behind",
                          " | " + copy / "d/" + " | 1 data file that nothing refers to (7 bytes)",
                          " | " + copy / "ocdbt_data/" +
                              " | 1 data file that nothing refers to (4 bytes)"));
}

TEST(Verify, ArraysThatNoLeafNames) {
  const GoldenCopy files("tiny_files_zarr2");
  fs::copy(files / "w", files / "other", fs::copy_options::recursive);
  EXPECT_THAT(notes(files.path()),
              ElementsAre("other |  | this array is stored, but no leaf of the tree has its name"));
  const GoldenCopy database("tiny_ocdbt_zarr2");
  database.edit("_METADATA", R"("key": "w")", R"("key": "v")");
  EXPECT_THAT(damages(database.path()), Contains("v |  | no array is stored under this name"));
  EXPECT_THAT(notes(database.path()),
              Contains("w |  | this array is stored, but no leaf of the tree has its name"));
}

TEST(Verify, ChunksWithoutMetadataWhereNamesAreAllThereIs) {
  const GoldenCopy copy("no_metadata_files");
  copy.remove("a.b/.zarray");
  EXPECT_THAT(
      damages(copy.path()),
      ElementsAre("a.b |  | chunks are stored under this name, but no .zarray or zarr.json"));
}

TEST(Verify, SideFiles) {
  const struct {
    const char* file;
    std::string text;
    const char* tensor;
    const char* expect;
  } kBad[] = {
      {"_sharding", "{", "", "unexpected end"},
      {"_sharding", R"({"dw==":"{"})", "w", "invalid JSON"},
      {"_sharding", R"({"dw==":"{}"})", "w", "'sharding_type' is missing"},
      {"_strings.json", "[]", "", "expected an object"},
      {"_CHECKPOINT_METADATA", "[]", "", "expected an object"},
      {"array_metadatas/process_0", "{}", "", "no 'array_metadatas'"},
      {"array_metadatas/process_1", R"({"array_metadatas": []})", "", "all processes must agree"},
      {"array_metadatas/process_0",
       R"({"array_metadatas": [{"array_metadata": {"param_name": "w", "write_shape": [2, 3], "chunk_shape": [1, 3]}}]})",
       "w", "records chunk shape (1, 3); the array's chunks have shape (2, 3)"},
      {"array_metadatas/process_0",
       R"({"array_metadatas": [{"array_metadata": {"param_name": "w", "write_shape": [2], "chunk_shape": [2, 3]}}]})",
       "w", "records write shape (2,) for an array of shape (2, 3)"},
  };
  for (const auto& bad : kBad) {
    const GoldenCopy copy("tiny_ocdbt_zarr2");
    copy.put(bad.file, bad.text);
    const VerifyReport report = open_orbax(copy.path())->verify({});
    const bool found =
        std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
          return f.severity == Severity::kDamage && f.tensor == bad.tensor &&
                 f.file == copy / bad.file && f.message.find(bad.expect) != std::string::npos;
        });
    EXPECT_TRUE(found) << bad.file << " " << bad.expect << "\n"
                       << ::testing::PrintToString(texts(report, Severity::kDamage));
  }
}

TEST(Verify, RecordsOfShapesThatContradictAreFound) {
  // `w` has the shape (2, 3), in one chunk.
  const std::pair<std::string, const char*> kBad[] = {
      {"[3, 2]", "records write shape (3, 2); array_metadatas records (2, 3)"},
      {"[2]", "records write shape (2,); array_metadatas records (2, 3)"}};
  for (const char* golden : {"tiny_ocdbt_zarr2", "tiny_ocdbt_zarr3", "tiny_files_zarr2"})
    for (const auto& [shape, expect] : kBad) {
      const GoldenCopy copy(golden);
      copy.edit("_METADATA", "\"write_shape\": [2, 3]", "\"write_shape\": " + shape);
      EXPECT_THAT(damages(copy.path()), IsEmpty()) << golden;  // Orbax restores it
      EXPECT_THAT(notes(copy.path()), ElementsAre(HasSubstr(expect))) << golden;
    }
  // Only `_METADATA` describes the array.
  const std::pair<std::string, const char*> kAlone[] = {
      {"[3, 2]", "records write shape (3, 2) for an array of shape (2, 3)"},
      {"[2, 3, 1]", "records write shape (2, 3, 1) for an array of shape (2, 3)"},
      {"[1, 3]", "records write shape (1, 3); the array's chunks have shape (2, 3)"}};
  for (const auto& [shape, expect] : kAlone) {
    const GoldenCopy copy("tiny_files_zarr2");
    copy.remove("array_metadatas");
    copy.edit("_METADATA", "\"write_shape\": [2, 3]", "\"write_shape\": " + shape);
    EXPECT_THAT(damages(copy.path()), ::testing::Contains(HasSubstr(expect)));
  }
  const GoldenCopy copy("tiny_files_zarr2");
  copy.put(
      "array_metadatas/process_0",
      R"({"array_metadatas": [{"array_metadata": {"param_name": "w", "write_shape": [4, 3], "chunk_shape": [2, 3]}}]})");
  EXPECT_THAT(
      damages(copy.path()),
      ::testing::Contains(HasSubstr("records write shape (4, 3) for an array of shape (2, 3)")));
}

Tree device_array(const Shape& shape) {
  Array array = Array::allocate(DType::kFloat32, shape);
  std::ranges::fill(array.mutable_as<float>(), 1.0F);
  return Tree(CustomLeaf::of(ShardedArray::from_array(array, SingleDeviceSharding{"TFRT_CPU_0"})));
}

// Exchanges the metadata of the arrays a and b.
void exchange_metadata(const std::string& path, bool ocdbt, const std::string& file) {
  const StorePtr files = open_file_store(path);
  const StorePtr store = ocdbt ? open_ocdbt(files) : files;
  const Bytes a = store->read("a/" + file, {}).value();
  const Bytes b = store->read("b/" + file, {}).value();
  if (!ocdbt) {
    files->write("a/" + file, b);
    files->write("b/" + file, a);
    return;
  }
  OcdbtTransaction changes(files);
  changes.write("a/" + file, b);
  changes.write("b/" + file, a);
  changes.commit();
}

// The metadata of two arrays has changed places.
TEST(Verify, ExchangedMetadataIsDamage) {
  for (const bool ocdbt : {false, true})
    for (const bool zarr3 : {false, true}) {
      const TempDir dir;
      SaveOptions options;
      options.use_ocdbt = ocdbt;
      options.use_zarr3 = zarr3;
      save_orbax(dir / "c", Tree{{"a", device_array({3, 4})}, {"b", device_array({4, 3})}},
                 options);
      EXPECT_THAT(damages(dir / "c"), IsEmpty());
      exchange_metadata(dir / "c", ocdbt, zarr3 ? "zarr.json" : ".zarray");
      EXPECT_THAT(
          damages(dir / "c"),
          ElementsAre(
              HasSubstr("records chunk shape (3, 4); the array's chunks have shape (4, 3)"),
              HasSubstr("records chunk shape (4, 3); the array's chunks have shape (3, 4)")));
    }
}

TEST(Verify, SideFilesThatSpeakOfOthersAreNotes) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.edit("_sharding", "{", R"({"eA==":"{\"sharding_type\": \"x\"}",)");
  copy.put("_strings.json", R"({"s":"text","t":"more"})");
  EXPECT_THAT(damages(copy.path()), IsEmpty());
  EXPECT_THAT(notes(copy.path()),
              ElementsAre(HasSubstr("a sharding is recorded for a name that no leaf has"),
                          HasSubstr("a string is stored, but no string leaf has its name")));
}

TEST(Verify, AnArrayWithoutItsShardingIsNotChecked) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.put("_sharding", "{}");
  EXPECT_THAT(damages(copy.path()), IsEmpty());
  const VerifyReport report = verify(copy.path());
  EXPECT_EQ(report.verdict(), Verdict::kNotChecked);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_THAT(report.findings[0].message, HasSubstr("has no sharding for this device array"));
}

TEST(Verify, MetadataOfAnArrayThatTensorStoreRefusesIsDamage) {
  const GoldenCopy copy("direct_files_zarr2");
  EXPECT_THAT(damages(copy.path()), IsEmpty());
  copy.edit("host/.zarray", R"("level":1)", R"("level":"1")");
  EXPECT_THAT(damages(copy.path()), ElementsAre(HasSubstr(R"(level: "1" is not an integer)")));
  copy.edit("host/.zarray", R"("level":"1")", R"("levels":1)");
  EXPECT_THAT(damages(copy.path()), ElementsAre(HasSubstr("an unknown member 'levels'")));
}

TEST(Verify, AByteOrderMarkInAFileThatPythonReadsIsDamage) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.edit("_sharding", "{", "\xef\xbb\xbf{");
  EXPECT_THAT(damages(copy.path()), IsEmpty()) << "TensorStore reads this file and skips the mark";
  copy.edit("array_metadatas/process_0", "{", "\xef\xbb\xbf{");
  EXPECT_THAT(damages(copy.path()), ElementsAre(HasSubstr("byte-order mark")));
}

TEST(Verify, JsonItemsOfAComposite) {
  const GoldenCopy copy("composite_one_item");
  copy.put("config/metadata", "{");
  EXPECT_THAT(damages(copy.path()), ElementsAre(HasSubstr(copy / "config/metadata")));
  copy.remove("config");
  EXPECT_THAT(
      damages(copy.path()),
      ElementsAre(HasSubstr("item 'config' is recorded, but there is no folder of that name")));
  fs::create_directory(copy / "config");
  EXPECT_THAT(damages(copy.path()), ElementsAre(HasSubstr("the folder of item 'config' is empty")));
}

TEST(Verify, SeveralItemsNameTheirs) {
  const GoldenCopy copy("composite");
  copy.remove("array/checkpoint/0");
  EXPECT_THAT(damages(copy.path()), ElementsAre(::testing::StartsWith("array/checkpoint | ")));
}

TEST(Verify, UncommittedIsNoted) {
  const auto report = open_uncommitted(golden("uncommitted/2.orbax-checkpoint-tmp"))->verify({});
  EXPECT_FALSE(report.damaged());
  EXPECT_THAT(texts(report, Severity::kNote),
              Contains(HasSubstr("not committed: its name has the mark")));
}

// ---- what is lost although everything that is left is whole ----

TEST(Verify, ATreeThatHasLostItsStructureIsDamaged) {
  for (const char* layout : {"tiny_ocdbt_zarr2", "tiny_files_zarr2", "tiny_files_zarr3"}) {
    const GoldenCopy copy(layout);
    copy.remove("_METADATA");
    EXPECT_THAT(damages(copy.path()), Contains(HasSubstr(copy / "_METADATA" + " | is missing")))
        << layout;
    copy.remove("_CHECKPOINT_METADATA");  // what is left still tells that Orbax wrote it
    EXPECT_THAT(damages(copy.path()),
                Contains(HasSubstr(copy / "_METADATA" +
                                   " | is missing, so the leaves of the tree are unknown")))
        << layout;
  }
}

TEST(Verify, AnItemWithoutTreeAndDatabaseIsDamaged) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  for (const char* lost : {"_METADATA", "manifest.ocdbt", "ocdbt.process_0"}) copy.remove(lost);
  ASSERT_TRUE(fs::exists(copy / "commit_success.txt"));
  EXPECT_THAT(damages(copy.path()),
              Contains(HasSubstr("is missing, though a tree was saved here by ")));
}

TEST(Verify, AnArrayThatOnlyItsMetadataStillNamesIsDamaged) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.remove("_METADATA");
  copy.remove("w");
  EXPECT_THAT(damages(copy.path()), Contains("w | " + copy / "array_metadatas/process_0" +
                                             " | describes an array that is not stored"));
}

TEST(Verify, EmptyResultsOfLostSavesAreDamaged) {
  const GoldenCopy copy("composite_one_item");
  for (const auto& entry : fs::directory_iterator(copy.path()))
    if (entry.is_directory())
      for (const auto& inside : fs::directory_iterator(entry))
        if (inside.path().filename() != "commit_success.txt") fs::remove_all(inside);
  EXPECT_EQ(damages(copy.path()).size(), 2U);  // the tree, and the JSON
  for (const auto& entry : fs::directory_iterator(copy.path()))
    if (entry.is_directory()) fs::remove_all(entry);
  EXPECT_EQ(damages(copy.path()).size(), 2U);
  copy.put("_CHECKPOINT_METADATA",
           R"({"item_handlers": null, "init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2})");
  EXPECT_THAT(damages(copy.path()), ElementsAre(HasSubstr("the checkpoint holds no item")));
}

TEST(Verify, ReportsMissingFilesOfDeviceArrays) {
  const GoldenCopy copy("tiny_ocdbt_zarr2");
  copy.remove("_sharding");
  EXPECT_THAT(damages(copy.path()),
              ElementsAre(HasSubstr(copy / "_sharding" +
                                    " | is missing, so 1 device array can be restored only if")));
  copy.remove("array_metadatas");
  EXPECT_THAT(damages(copy.path()),
              Contains(HasSubstr(copy / "array_metadatas" + " | is missing")));
}

TEST(Verify, ArraysOfAnotherZarrVersionThanIsRecordedAreDamaged) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.edit("_METADATA", R"("use_zarr3": false)", R"("use_zarr3": true)");
  EXPECT_THAT(damages(copy.path()),
              Contains(HasSubstr(
                  "records that arrays are stored as Zarr v3; this one is stored as Zarr v2")));
}

TEST(Verify, ADamagedRecordOfTuplesIsDamage) {
  const struct {
    const char* from;
    const char* to;
    const char* expect;
  } kBad[] = {
      {R"("value_metadata_tree": "{)", R"("value_metadata_tree": "{,)", "invalid JSON"},
      {R"(\"clazz\": \"tuple\")", R"(\"clazz\": \"tupel\")", "unknown node"},
      {R"("value_metadata_tree": "{\"e\")", R"("value_metadata_tree": "{\"f\")",
       "tree_metadata has a leaf at"},
  };
  for (const auto& bad : kBad) {
    const GoldenCopy copy("rich_types");
    EXPECT_THAT(damages(copy.path()), IsEmpty());
    copy.edit("_METADATA", bad.from, bad.to);
    EXPECT_THAT(damages(copy.path()),
                ElementsAre(::testing::AllOf(HasSubstr(copy / "_METADATA"), HasSubstr(bad.expect))))
        << bad.to;
    EXPECT_THAT([&] { (void)open_orbax(copy.path())->rich_structure(); },
                FailsWith(Code::kDataLoss, bad.expect));
  }
}

// ---- the keys of the leaves ----

constexpr const char* kLists =
    R"j({"tree_metadata": {"('l', '0')": {"key_metadata": [{"key": "l", "key_type": 2}, {"key": "0", "key_type": 1}], "value_metadata": {"value_type": "None", "skip_deserialize": true}}, "('l', '1')": {"key_metadata": [{"key": "l", "key_type": 2}, {"key": "1", "key_type": 1}], "value_metadata": {"value_type": "string", "skip_deserialize": false}}}, "use_ocdbt": false, "use_zarr3": false, "store_array_data_equal_to_fill_value": true, "custom_metadata": null})j";

// A checkpoint with one list of None and a string.
GoldenCopy list_checkpoint() {
  GoldenCopy copy("tiny_files_zarr2");
  for (const char* name : {"array_metadatas", "big", "n", "w", "_sharding"}) copy.remove(name);
  copy.put("_METADATA", kLists);
  copy.put("_strings.json", R"({"l.1": "text"})");
  return copy;
}

TEST(Verify, KeysThatDoNotFitTheirNames) {
  const GoldenCopy copy = list_checkpoint();
  EXPECT_THAT(verify(copy.path()).findings, IsEmpty());
  const std::string file = copy / "_METADATA";
  const struct {
    std::string from, to;
    std::vector<std::string> expect;
  } kBad[] = {
      {"('l', '0')",
       "('l', '2')",
       {"l.0 | " + file +
        " | the entry ('l', '2') has the keys ['l'][0]; its name must be the tuple of its keys"}},
      {"('l', '0')",
       "'l', '0')",
       {"l.0 | " + file +
        " | the entry 'l', '0') has the keys ['l'][0]; its name must be the tuple of its keys"}},
      {R"({"key": "0", "key_type": 1})",
       R"({"key": "2", "key_type": 1})",
       {"l.2 | " + file +
            " | the entry ('l', '0') has the keys ['l'][2]; its name must be the tuple of its keys",
        "l.1 | " + file + " | 'l' is a list with an item 1, but without an item 0"}},
      {R"({"key": "0", "key_type": 1})",
       R"({"key": "0", "key_type": 2})",
       {"l.1 | " + file + " | 'l' is a list with an item 1, but without an item 0",
        "l.0 | " + file + " | 'l' has items of a list (1) and keys of a dict ('0')"}},
  };
  for (const auto& bad : kBad) {
    copy.put("_METADATA", kLists);
    copy.edit("_METADATA", bad.from, bad.to);
    EXPECT_EQ(damages(copy.path()), bad.expect) << bad.to;
  }
}

TEST(Verify, TwoLeavesWithTheSameKeys) {
  const GoldenCopy copy = list_checkpoint();
  copy.edit("_METADATA", R"({"key": "0", "key_type": 1})", R"({"key": "1", "key_type": 1})");
  const std::string why = copy / "_METADATA" +
                          ": ('l', '0') has the keys ['l'][1], and ('l', '1') has the keys "
                          "['l'][1]: one of them would replace the other";
  EXPECT_THAT([&] { (void)open_orbax(copy.path()); }, FailsWith(Code::kDataLoss, why));
  const VerifyReport report = verify(copy.path());
  EXPECT_EQ(report.verdict(), Verdict::kDamaged);
  EXPECT_THAT(texts(report, Severity::kDamage), ElementsAre(HasSubstr(why)));
}

// Orbax: "Unrecognized typestr: none".
TEST(Verify, AnEmptyNodeOfAnUnknownTypeIsNotChecked) {
  const GoldenCopy copy = list_checkpoint();
  copy.edit("_METADATA", R"("value_type": "None")", R"("value_type": "none")");
  const VerifyReport report = verify(copy.path());
  EXPECT_EQ(report.verdict(), Verdict::kNotChecked);
  EXPECT_THAT(texts(report, Severity::kNotChecked),
              ElementsAre("l.0 |  | a custom leaf: its type 'none' belongs to a type handler that "
                          "Cairn does not have"));
}

TEST(Verify, AnArrayIsNotAnEmptyNode) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.edit("_METADATA", R"("np.ndarray", "skip_deserialize": false)",
            R"("np.ndarray", "skip_deserialize": true)");
  EXPECT_THAT(damages(copy.path()),
              ElementsAre("big | " + copy / "_METADATA" +
                          " | records that nothing is stored for this leaf, though its type is "
                          "'np.ndarray'"));
}

// No writer of items stores a chunk of an array without elements.
TEST(Verify, AChunkOfAnArrayWithoutElements) {
  for (const std::string shape : {"[0,3]", "[2,0]"}) {
    const GoldenCopy copy("tiny_files_zarr2");
    copy.edit("w/.zarray", R"("shape":[2,3])", R"("shape":)" + shape);
    EXPECT_THAT(
        damages(copy.path()),
        Contains("w | " + copy / "w/0.0" +
                 " | chunk w/0.0 is stored, though the array has no elements: its shape is " +
                 (shape == "[0,3]" ? "(0, 3)" : "(2, 0)")));
    copy.remove("w/0.0");
    EXPECT_THAT(damages(copy.path()), Not(Contains(HasSubstr("no elements"))));
  }
  // A bare array may have been resized.
  const GoldenCopy copy("tiny_files_zarr2");
  copy.edit("w/.zarray", R"("shape":[2,3])", R"("shape":[0,3])");
  const VerifyReport report = verify(copy / "w");
  EXPECT_EQ(report.verdict(), Verdict::kGood);
  EXPECT_THAT(texts(report, Severity::kNote), ElementsAre(HasSubstr("lies outside the array")));
}

// ---- what is not damaged, but could not be checked ----

TEST(Verify, LeavesOfCustomHandlersAreNotChecked) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.edit("_METADATA", R"("value_type": "scalar")", R"("value_type": "MyType")");
  // It is an array under the leaf's name all the same, but Orbax needs the handler.
  EXPECT_THAT(damages(copy.path()), IsEmpty());
  EXPECT_THAT(texts(verify(copy.path()), Severity::kNotChecked),
              ElementsAre("n | " + copy / "_METADATA" +
                          " | only the array under this leaf's name was checked: its type 'MyType' "
                          "belongs to a type handler that Cairn does not have"));
  fs::remove_all(copy / "n");
  copy.put("n", "as its handler likes it");
  const VerifyReport report = verify(copy.path());
  EXPECT_EQ(report.verdict(), Verdict::kNotChecked);
  EXPECT_THAT(texts(report, Severity::kNotChecked),
              ElementsAre("n |  | a custom leaf: its type 'MyType' belongs to a type handler that "
                          "Cairn does not have"));
  copy.remove("w");
  EXPECT_EQ(verify(copy.path()).verdict(), Verdict::kDamaged);
}

TEST(Verify, ArraysOfUnknownCodecsAreNotChecked) {
  const GoldenCopy copy("tiny_files_zarr2");
  copy.edit("w/.zarray", R"("id":"zstd")", R"("id":"mine")");
  const VerifyReport report = verify(copy.path());
  EXPECT_EQ(report.verdict(), Verdict::kNotChecked);
  EXPECT_THAT(texts(report, Severity::kNotChecked),
              ElementsAre(::testing::AllOf(::testing::StartsWith("w | "), HasSubstr("mine"))));
}

TEST(Verify, AnItemThatCannotBeOpenedDoesNotHideTheOthers) {
  const GoldenCopy copy("composite");
  copy.put("params/_METADATA", "{");
  copy.remove("array/checkpoint/0");
  const auto report = verify(copy.path());
  const auto found = texts(report, Severity::kDamage);
  EXPECT_THAT(found, Contains(HasSubstr(copy / "params/_METADATA")));
  EXPECT_THAT(found, Contains(::testing::StartsWith("array/checkpoint | ")));
  const auto checkpoint = open_orbax(copy.path());
  ASSERT_GT(checkpoint->tensors().size(), 1U);
  const TensorInfo& lost = checkpoint->tensors().back();
  EXPECT_EQ(lost.full_name(), "params/");
  EXPECT_EQ(lost.kind, LeafKind::kUnknown);
  EXPECT_EQ(lost.error_code, Code::kDataLoss);
  EXPECT_THAT(lost.error, HasSubstr("params/_METADATA"));
  EXPECT_THAT([&] { static_cast<void>(checkpoint->read("params/")); },
              FailsWith(Code::kDataLoss, "params/_METADATA"));
}

// ---- steps ----

TEST(Verify, TheStepThatWasCheckedIsNamed) {
  const GoldenCopy copy("tiny_manager");
  const VerifyReport report = verify(copy.path());
  ASSERT_TRUE(report.step);
  EXPECT_THAT(report.path, ::testing::EndsWith("/" + std::to_string(*report.step)));
  EXPECT_EQ(verify(golden("tiny_ocdbt_zarr2")).step, std::nullopt);
  fs::create_directory(copy / "99");
  EXPECT_THAT(texts(verify(copy.path()), Severity::kNote),
              Contains(HasSubstr("/99 | a later step that is not complete")));
}

TEST(Verify, AllStepsOfARoot) {
  const GoldenCopy copy("manager");
  const auto reports = verify_steps(copy.path());
  ASSERT_GE(reports.size(), 2U);
  for (const auto& report : reports) EXPECT_EQ(report.verdict(), Verdict::kGood) << report.path;
  const std::string first = reports.front().path;
  EXPECT_NE(first, reports.back().path);
  fs::remove_all(first + "/default/d");
  EXPECT_EQ(verify(copy.path()).verdict(), Verdict::kGood);  // the latest
  const auto again = verify_steps(copy.path());
  EXPECT_EQ(again.front().verdict(), Verdict::kDamaged);
  EXPECT_EQ(again.back().verdict(), Verdict::kGood);
  fs::create_directory(copy / "99");  // an empty result of a lost save
  EXPECT_EQ(verify_steps(copy.path()).back().verdict(), Verdict::kDamaged);
  EXPECT_THAT([&] { verify_steps(golden("tiny_ocdbt_zarr2")); },
              FailsWith(Code::kInvalidArgument, "is not a root of steps"));
}

TEST(Verify, DamagedMetadataOfARoot) {
  const GoldenCopy copy("manager");
  fs::create_directories(copy / "metadata");
  for (const std::string name : {"_ROOT_METADATA", "metadata"}) {
    const std::string file = copy / ("metadata/" + name);
    testing::put_file(file, R"({"custom_metadata": {"lang": "en"})");
    EXPECT_THAT(texts(verify(copy.path()), Severity::kDamage), ElementsAre(HasSubstr(file)));
    const auto reports = verify_steps(copy.path());
    EXPECT_EQ(reports.front().verdict(), Verdict::kGood);
    EXPECT_EQ(reports.back().path, copy.path());
    EXPECT_THAT(texts(reports.back(), Severity::kDamage), ElementsAre(HasSubstr(file)));
    testing::put_file(file, R"({"custom_metadata": {"lang": "en"}})");
    EXPECT_EQ(verify(copy.path()).verdict(), Verdict::kGood);
    fs::remove(file);
  }
}

TEST(Verify, VerdictsFollowFromTheWorstFinding) {
  VerifyReport report;
  EXPECT_EQ(report.verdict(true), Verdict::kGood);
  report.findings.push_back({Severity::kNote, "", "", 0, ""});
  EXPECT_EQ(report.verdict(), Verdict::kGood);
  EXPECT_EQ(report.verdict(true), Verdict::kDamaged);
  report.findings.push_back({Severity::kNotChecked, "", "", 0, ""});
  EXPECT_EQ(report.verdict(), Verdict::kNotChecked);
  report.findings.push_back({Severity::kDamage, "", "", 0, ""});
  EXPECT_EQ(report.verdict(), Verdict::kDamaged);
}

}  // namespace
}  // namespace cairn
