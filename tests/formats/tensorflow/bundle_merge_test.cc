// bundle_merge_test.cc -- TensorFlow checkpoints merged: what is in the result, and what is refused
// and stays as it was.
#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/formats/tensorflow/write/bundle_merge.h>
#include <cairn/io/save_lock.h>
#include <gmock/gmock.h>

#include <map>

#include "tests/formats/raw/raw_table.h"
#include "tests/formats/tensorflow/int_bundle.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::Contents;
using testing::contents;
using testing::FailsWith;
using testing::file_names;
using testing::slice;
using testing::TempDir;
using testing::whole;
using testing::write_ints;

using Snapshot = std::map<std::string, Bytes>;
Snapshot snapshot(const std::string& folder) {
  Snapshot found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    found[entry.path().string()] =
        entry.is_regular_file() ? read_file(entry.path().string()) : Bytes();
  return found;
}

// The index of a bundle without data files of its own, as nobody would write it.
Bytes index_of(const BundleHeader& header,
               const std::vector<std::pair<std::string, BundleEntry>>& entries) {
  std::vector<std::pair<std::string, Bytes>> table = {{"", encode_bundle_header(header)}};
  for (const auto& [key, entry] : entries) table.emplace_back(key, encode_bundle_entry(entry));
  return testing::table_of(table);
}

TEST(BundleMerge, JoinsPartsOfSeveralFilesAndSlicesOfOneTensor) {
  const TempDir dir;
  write_ints(dir / "one/part",
             {whole("a", 3, "/job:w/task:0"), whole("b", 2, "/job:w/task:1"),
              whole("c", 1, "/job:w/task:2")},
             1);
  write_ints(dir / "two/part", {slice("s", 5, 3, 2), whole("d", 0)}, 2);
  write_ints(dir / "three/part", {slice("s", 5, 0, 3)}, 3);
  merge_bundles(std::vector{dir / "one/part", dir / "two/part", dir / "three/part"},
                dir / "new/ckpt", {.delete_old_dirs = true});
  EXPECT_EQ(file_names(dir.path()), "new ");
  EXPECT_EQ(file_names(dir / "new"),
            "ckpt.data-00000-of-00005 ckpt.data-00001-of-00005 ckpt.data-00002-of-00005 "
            "ckpt.data-00003-of-00005 "
            "ckpt.data-00004-of-00005 ckpt.index ");
  EXPECT_EQ(
      contents(dir / "new/ckpt"),
      (Contents{{"a", {1, 1, 1}}, {"b", {1, 1}}, {"c", {1}}, {"d", {}}, {"s", {3, 3, 3, 2, 2}}}));
}

TEST(BundleMerge, PassesOverWhatIsMissingOnlyIfItMay) {
  const TempDir dir;
  write_ints(dir / "here", {whole("a", 1)}, 1);
  const auto before = snapshot(dir.path());
  const std::vector parts = {dir / "missing", dir / "here"};
  EXPECT_THAT([&] { merge_bundles(parts, dir / "x"); },
              FailsWith(Code::kInvalidArgument,
                        "allow_missing_files was set to false and " + dir / "missing"));
  EXPECT_THAT(
      [&] {
        merge_bundles(std::vector{dir / "missing"}, dir / "x", {.allow_missing_files = true});
      },
      FailsWith(Code::kInvalidArgument, "At least one prefix checkpoint file must exist"));
  EXPECT_THAT([&] { merge_bundles({}, dir / "x"); },
              FailsWith(Code::kInvalidArgument, "At least one prefix"));
  EXPECT_EQ(snapshot(dir.path()), before);
  merge_bundles(parts, dir / "x", {.allow_missing_files = true});
  EXPECT_EQ(file_names(dir.path()), "x.data-00000-of-00001 x.index ");
  EXPECT_EQ(contents(dir / "x"), (Contents{{"a", {1}}}));
}

TEST(BundleMerge, KeepsFoldersThatAreNotEmptyOrHaveTheResult) {
  const TempDir dir;
  write_ints(dir / "one/part", {whole("a", 1)}, 1);
  write_ints(dir / "two/part", {whole("b", 1)}, 2);
  write_ints(dir / "here/part", {whole("c", 1)}, 3);
  testing::put_file(dir / "one/other", "not of the part");
  // The folder of the result has another name, too.
  merge_bundles(std::vector{dir / "one/part", dir / "two/part", dir / "here/part"},
                dir / "two/../here/x", {.delete_old_dirs = true});
  EXPECT_EQ(file_names(dir.path()), "here one ");
  EXPECT_EQ(file_names(dir / "one"), "other ");
  EXPECT_EQ(contents(dir / "here/x").size(), 3U);
}

// Each is refused, and every file stays as it was: of the parts and of what was to be replaced.
TEST(BundleMerge, RefusesPartsThatDoNotFit) {
  const TempDir dir;
  write_ints(dir / "x", {whole("old", 1)}, 1);
  write_ints(dir / "a", {whole("a", 1)}, 2);
  write_ints(dir / "a2", {whole("a", 1)}, 2);
  write_ints(dir / "s", {slice("s", 5, 0, 2)}, 2);
  write_ints(dir / "same", {slice("s", 5, 0, 2)}, 2);
  write_ints(dir / "overlapping", {slice("s", 5, 1, 2)}, 2);
  write_ints(dir / "longer", {slice("s", 6, 2, 2)}, 2);
  write_ints(dir / "whole", {whole("s", 5)}, 2);
  TensorFlowSource other_type = slice("s", 5, 2, 2);
  other_type.dtype = DType::kUint32;
  write_ints(dir / "other_type", {other_type}, 2);
  const BundleEntry entry{.dtype = 3, .shape = {1}, .size = 4, .crc32c = 1};
  testing::put_file(dir / "big.data-00000-of-00001", "1234");
  testing::put_file(dir / "big.index",
                    index_of({.big_endian = true, .producer = 1}, {{"big", entry}}));
  testing::put_file(dir / "older.data-00000-of-00001", "1234");
  testing::put_file(dir / "older.index", index_of({.producer = 0}, {{"older", entry}}));
  testing::put_file(dir / "newer.index",
                    index_of({.producer = 2, .min_consumer = 2}, {{"newer", entry}}));
  testing::put_file(dir / "lost.index", index_of({.producer = 1}, {{"lost", entry}}));
  testing::put_file(dir / "folder.index", index_of({.producer = 1}, {{"folder", entry}}));
  std::filesystem::create_directory(dir / "folder.data-00000-of-00001");
  testing::put_file(dir / "nothing.index", index_of({.producer = 1}, {}));
  testing::put_file(dir / "empty.index", "");
  const auto before = snapshot(dir.path());
  const auto refuses = [&](const std::vector<std::string>& names, Code code,
                           const std::string& text) {
    SCOPED_TRACE(names.back());
    std::vector<std::string> parts;
    for (const std::string& name : names) parts.push_back(dir / name);
    EXPECT_THAT([&] { merge_bundles(parts, dir / "x", {.delete_old_dirs = true}); },
                FailsWith(code, text));
    EXPECT_EQ(snapshot(dir.path()), before);
  };
  const std::string twice = " encountered, when merging prefix: " + dir / "x";
  refuses({"a", "a2"}, Code::kInvalidArgument, "a2.index: Duplicate tensor keyed by a" + twice);
  refuses({"a", "a"}, Code::kInvalidArgument, "Duplicate tensor keyed by a" + twice);
  for (const char* other : {"same", "longer", "whole", "other_type"})
    refuses({"s", other}, Code::kInvalidArgument,
            std::string(other) + ".index: Duplicate tensor keyed by s" + twice);
  refuses({"s", "overlapping"}, Code::kDataLoss, "the merged index: tensor 's': its slices");
  refuses({"a", "big"}, Code::kInvalidArgument,
          "big.index: its byte order or version differs from the previous parts");
  refuses({"a", "older"}, Code::kInvalidArgument, "older.index: its byte order or version");
  refuses({"a", "newer"}, Code::kUnimplemented,
          "newer.index: this checkpoint needs a reader of version 2");
  refuses({"a", "lost"}, Code::kNotFound, "lost.data-00000-of-00001: the data file is missing");
  refuses({"a", "folder"}, Code::kIo, "folder.data-00000-of-00001: is not a file");
  refuses({"nothing"}, Code::kDataLoss, "the merged index: ");
  refuses({"a", "empty"}, Code::kDataLoss, "empty.index: ");
}

TEST(BundleMerge, RefusesEveryDamageToAnIndex) {
  const TempDir dir = TempDir::in_memory();
  write_ints(dir / "a", {whole("a", 1)}, 1);
  write_ints(dir / "b", {whole("b", 1), slice("s", 2, 0, 1)}, 2);
  const Bytes good = read_file(dir / "b.index");
  const auto check = [&](ByteView bad, const std::string& what) {
    SCOPED_TRACE(what);
    testing::put_file(dir / "b.index", bad);
    EXPECT_THAT(
        [&] {
          merge_bundles(std::vector{dir / "a", dir / "b"}, dir / "x");
        },
        FailsWith(Code::kDataLoss, dir / "b.index"));
    ASSERT_EQ(file_names(dir.path()),
              "a.data-00000-of-00001 a.index b.data-00000-of-00001 b.index ");
  };
  testing::for_each_truncation(good, check);
  testing::for_each_bit_flip(good, check);
}

TEST(BundleMerge, TheResultIsNoPartUnderAnyName) {
  const TempDir dir;
  write_ints(dir / "a/x", {whole("a", 1)}, 1);
  write_ints(dir / "a/y", {whole("b", 1)}, 2);
  std::filesystem::create_directory_symlink("a", dir / "link");
  for (const char* file : {".index", ".data-00000-of-00001"})
    std::filesystem::create_symlink(std::string("x") + file, dir / "a/z" + file);
  const auto before = snapshot(dir.path());
  for (const char* same : {"a/x", "a/../a/x", "a/./x", "a//x", "link/x"})
    EXPECT_THAT(
        [&] {
          merge_bundles(std::vector{dir / "a/y", dir / "a/x"}, dir / same);
        },
        FailsWith(Code::kInvalidArgument, same + std::string(": is both a part")));
  EXPECT_THAT(
      [&] {
        merge_bundles(std::vector{dir / "a/z", dir / "a/y"}, dir / "a/x");
      },
      FailsWith(Code::kInvalidArgument,
                "a/z.data-00000-of-00001: is a link to a file of " + dir / "a/x"));
  EXPECT_THAT([&] { merge_bundles(std::vector{dir / "a/y"}, dir / "a/"); },
              FailsWith(Code::kInvalidArgument, "names a folder"));
  EXPECT_EQ(snapshot(dir.path()), before);
}

TEST(BundleMerge, ValuesBehindLinksStay) {
  const TempDir dir;
  write_ints(dir / "values/x", {whole("a", 2)}, 1);
  std::filesystem::create_directory(dir / "part");
  for (const char* file : {"x.index", "x.data-00000-of-00001"})
    std::filesystem::create_symlink(std::string("../values/") + file, dir / "part/" + file);
  merge_bundles(std::vector{dir / "part/x"}, dir / "new/ckpt", {.delete_old_dirs = true});
  EXPECT_EQ(file_names(dir.path()), "new values ");
  EXPECT_FALSE(std::filesystem::is_symlink(dir / "new/ckpt.data-00000-of-00001"));
  EXPECT_EQ(contents(dir / "new/ckpt"), (Contents{{"a", {1, 1}}}));
  EXPECT_EQ(contents(dir / "values/x"), (Contents{{"a", {1, 1}}}));
}

TEST(BundleMerge, PartsStayWhileAnotherSaveHasTheTarget) {
  const TempDir dir;
  const std::vector parts = {dir / "a"};
  write_ints(parts.front(), {whole("a", 1)}, 1);
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place);
    // As a merge leaves it that was stopped before it removed its parts.
    for (const char* file : {".index", ".data-00000-of-00001"})
      if (in_place) std::filesystem::create_hard_link(dir / "a" + file, dir / "x" + file);
    const SaveLock other(dir / "x.index");
    EXPECT_THAT([&] { merge_bundles(parts, dir / "x"); },
                FailsWith(Code::kUnavailable, "another save to this path is in progress"));
    EXPECT_EQ(contents(dir / "a"), (Contents{{"a", {1}}}));
  }
}

TEST(BundleMerge, APartWithoutTensorsCountsForNothing) {
  const TempDir dir;
  testing::put_file(dir / "none.index", index_of({.shards = 3, .producer = 1}, {}));
  write_ints(dir / "a", {whole("a", 1)}, 1);
  merge_bundles(std::vector{dir / "none", dir / "a"}, dir / "x");
  EXPECT_EQ(file_names(dir.path()), "x.data-00000-of-00001 x.index ");
  EXPECT_EQ(contents(dir / "x"), (Contents{{"a", {1}}}));
}

}  // namespace
}  // namespace cairn
