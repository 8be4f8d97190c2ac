// Databases written by the real TensorStore: every version, key and value, and every object byte
// for byte.
#include <cairn/io/file.h>
#include <cairn/ocdbt/format/dump.h>
#include <cairn/ocdbt/format/envelope.h>
#include <cairn/ocdbt/read/check.h>
#include <cairn/ocdbt/read/versions.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/ocdbt/support.h"
#include "tests/support/matchers.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::FailsWith;
using testing::contents;
using testing::Golden;
using testing::golden_names;
using testing::golden_path;
using testing::load_golden;

class GoldenDatabase : public ::testing::TestWithParam<std::string> {
 protected:
  StorePtr base_ = open_file_store(golden_path(GetParam()));
  Golden golden_ = load_golden(GetParam());
};

TEST_P(GoldenDatabase, NewestVersionHoldsWhatTensorStoreReads) {
  const auto expected = golden_.versions.empty() ? std::map<std::string, std::string>()
                                                 : golden_.versions.back().items;
  const auto store = open_ocdbt(base_);
  EXPECT_EQ(contents(*store), expected);
  const auto keys = store->list("");
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end(),
                             [](const auto& a, const auto& b) { return a.key < b.key; }));
  for (const auto& [key, value] : expected) {
    EXPECT_EQ(store->size(key), value.size());
    EXPECT_EQ(as_text(store->map(key).value().bytes), value);
    Bytes out(value.size());
    EXPECT_TRUE(store->read_into(key, 0, out));
    EXPECT_EQ(as_text(out), value);
    if (const auto location = store->locate(key)) {
      EXPECT_EQ(location->length, value.size());
      const Bytes file = read_file(location->file);
      EXPECT_EQ(as_text(ByteView(file).subspan(location->offset, location->length)), value);
    }
  }
}

TEST_P(GoldenDatabase, EveryVersionOpensByGenerationAndByTime) {
  for (const auto& version : golden_.versions) {
    SCOPED_TRACE(version.generation);
    EXPECT_EQ(
        contents(*open_ocdbt(base_, {.generation = version.generation, .commit_time_ns = {}})),
        version.items);
    EXPECT_EQ(
        contents(*open_ocdbt(base_, {.generation = {}, .commit_time_ns = version.commit_time_ns})),
        version.items);
    EXPECT_EQ(contents(*open_ocdbt(
                  base_, {.generation = {}, .commit_time_ns = version.commit_time_ns + 1})),
              version.items);
  }
  const std::uint64_t newest = golden_.versions.empty() ? 0 : golden_.versions.back().generation;
  EXPECT_THAT([&] { open_ocdbt(base_, {.generation = newest + 1, .commit_time_ns = {}}); },
              FailsWith(Code::kNotFound, "no generation"));
  EXPECT_THAT([&] { open_ocdbt(base_, {.generation = 0, .commit_time_ns = {}}); },
              FailsWith(Code::kNotFound, "no generation 0"));
  const std::uint64_t oldest =
      golden_.versions.empty() ? 1 : golden_.versions.front().commit_time_ns;
  EXPECT_THAT([&] { open_ocdbt(base_, {.generation = {}, .commit_time_ns = oldest - 1}); },
              FailsWith(Code::kNotFound, " UTC)"));
}

TEST_P(GoldenDatabase, VersionsAreListedByGeneration) {
  const auto info = read_database_info(*base_);
  ASSERT_TRUE(info);
  std::vector<std::uint64_t> listed, expected;
  for (const auto& v : list_versions(*base_, *info)) listed.push_back(v.version.generation);
  for (const auto& v : golden_.versions) expected.push_back(v.generation);
  EXPECT_EQ(listed, expected);
  if (golden_.versions.empty()) {
    EXPECT_EQ(info->newest(), nullptr);
    return;
  }
  EXPECT_EQ(info->newest()->generation, golden_.versions.back().generation);
  EXPECT_EQ(info->newest()->commit_time_ns, golden_.versions.back().commit_time_ns);
  EXPECT_EQ(info->newest()->statistics.num_keys, golden_.versions.back().items.size());
}

TEST_P(GoldenDatabase, ListWithAPrefixIsThatPartOfTheWholeList) {
  const auto store = open_ocdbt(base_);
  const auto all = store->list("");
  std::set<std::string> prefixes = {"zzz", std::string("\xff\xff\xff")};
  for (const auto& entry : all)
    for (std::size_t n = 0; n <= entry.key.size(); n += entry.key.size() > 100 ? 50 : 1)
      prefixes.insert(entry.key.substr(0, n));
  for (const auto& prefix : prefixes) {
    std::vector<ListEntry> expected;
    for (const auto& entry : all)
      if (entry.key.starts_with(prefix)) expected.push_back(entry);
    EXPECT_EQ(store->list(prefix), expected) << prefix;
    EXPECT_EQ(store->list(prefix + '\x01').size(), 0U) << prefix;
  }
}

TEST_P(GoldenDatabase, KeysThatAreNotThereAreAbsent) {
  const auto store = open_ocdbt(base_);
  for (const auto& entry : store->list("")) {
    for (const std::string& near : {entry.key + '\0', entry.key.substr(0, entry.key.size() - 1),
                                    "!" + entry.key, entry.key + "~"}) {
      if (near.empty() || !store->list(near).empty()) continue;
      EXPECT_EQ(store->read(near, {}), std::nullopt) << near;
      EXPECT_EQ(store->size(near), std::nullopt) << near;
      EXPECT_FALSE(store->map(near)) << near;
      EXPECT_FALSE(store->locate(near)) << near;
      EXPECT_FALSE(store->read_into(near, 0, {})) << near;
    }
  }
}

TEST_P(GoldenDatabase, ObjectsDumpAsTensorStoreDumpsThem) {
  EXPECT_EQ(golden_.objects.empty(), GetParam() == "numbered_empty");
  for (const auto& object : golden_.objects) {
    SCOPED_TRACE(object.file);
    const Bytes bytes = base_->read(object.file, object.range.value_or(ByteRange{})).value();
    EXPECT_EQ(
        to_text(testing::sorted_members(dump_object(bytes, object.base_path)), JsonStyle::kPretty),
        to_text(testing::sorted_members(object.dump), JsonStyle::kPretty));
  }
}

// Encodes what was decoded, with no compression.
Bytes recoded(ObjectKind kind, const Bytes& encoded) {
  switch (kind) {
    case ObjectKind::kBtreeNode:
      return encode_btree_node(decode_btree_node(encoded), std::nullopt);
    case ObjectKind::kVersionNode:
      return encode_version_node(decode_version_node(encoded), std::nullopt);
    case ObjectKind::kManifest:
      break;
  }
  return encode_manifest(decode_manifest(encoded));
}

TEST_P(GoldenDatabase, ObjectsEncodeToTheBytesTensorStoreWrote) {
  for (const auto& object : golden_.objects) {
    SCOPED_TRACE(object.file);
    const Bytes bytes = base_->read(object.file, object.range.value_or(ByteRange{})).value();
    const ObjectKind kind = sniff_object(bytes).value();
    const Envelope original = open_envelope(kind, bytes);
    const Bytes ours = recoded(kind, bytes);
    const Envelope again = open_envelope(kind, ours);
    EXPECT_EQ(as_text(again.body()), as_text(original.body()));
    if (!original.compressed) {
      EXPECT_EQ(ours, bytes);
    }
  }
}

TEST_P(GoldenDatabase, CheckFindsNothingWrongAndEveryFile) {
  VerifyReport report;
  std::set<std::string> files, on_disk;
  check_database(base_, report, files);
  EXPECT_FALSE(report.damaged()) << report.findings.front().message;
  for (const auto& entry : base_->list("")) on_disk.insert(entry.key);
  // Databases of single processes hold files that the merged one does not need, and are not what
  // was checked.
  for (const auto& file : files) EXPECT_TRUE(on_disk.contains(file)) << file;
  if (!GetParam().starts_with("merged")) {
    EXPECT_EQ(files, on_disk);
  }
}

INSTANTIATE_TEST_SUITE_P(TensorStore, GoldenDatabase, ::testing::ValuesIn(golden_names()),
                         [](const auto& database) { return database.param; });

TEST(GoldenFolder, HasNoDatabaseThatIsNotTested) {
  std::set<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path("")))
    if (entry.is_directory()) folders.insert(entry.path().filename());
  EXPECT_EQ(folders, std::set<std::string>(golden_names().begin(), golden_names().end()));
}

}  // namespace
}  // namespace cairn::ocdbt
