// Folders that are held open: what is read is theirs, whatever their path comes to name.
#include <cairn/io/directory.h>
#include <cairn/io/tree/local_folder.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using ::testing::Pair;
using testing::put_file;
using testing::TempDir;
using ::testing::UnorderedElementsAre;

std::string text_at(const FolderHandle& folder, const std::string& path) {
  return std::string(as_text(folder.read_text(path, 100)));
}

TEST(FolderHandle, ReadsTheFolderThatWasOpened) {
  const TempDir dir;
  put_file(dir / "a/deep/x", "old");
  put_file(dir / "b/deep/x", "new");
  const FolderPtr folder = LocalFolder::open(dir / "a/");
  const FolderPtr below = folder->open_below(dir / "a/deep");
  ASSERT_TRUE(Directory::open(dir.path()).swap("a", "b"));
  EXPECT_EQ(text_at(*folder, dir / "a/deep/x"), "old");
  EXPECT_EQ(text_at(*below, dir / "a/deep/x"), "old");
  EXPECT_EQ(text_at(*LocalFolder::open(dir / "a"), dir / "a/deep/x"), "new");
  EXPECT_TRUE(folder->replaced());
  EXPECT_TRUE(below->replaced());
}

TEST(FolderHandle, SaysThatItWasReplacedOnlyIfSomethingWasMissing) {
  const TempDir dir;
  put_file(dir / "a/x", "");
  const FolderPtr folder = LocalFolder::open(dir / "a");
  folder->note_missing();
  EXPECT_FALSE(folder->replaced());
  EXPECT_NO_THROW(folder->check_not_replaced());
  const FolderPtr other = LocalFolder::open(dir / "a");
  std::filesystem::rename(dir / "a", dir / "b");
  EXPECT_NO_THROW(other->check_not_replaced());
  EXPECT_THAT([&] { folder->check_not_replaced(); },
              FailsWith(Code::kUnavailable, "was replaced or removed while Cairn read it"));
  EXPECT_THAT([&] { in_folder(folder.get(), [] {}); },
              FailsWith(Code::kUnavailable, "was replaced"));
  const auto fail = []() -> int { throw Error(Code::kDataLoss, "damaged"); };
  EXPECT_THAT([&] { in_folder(other.get(), fail); }, FailsWith(Code::kUnavailable, "was replaced"));
}

TEST(FolderHandle, KnowsWhatIsThere) {
  const TempDir dir;
  put_file(dir / "a/file", "");
  put_file(dir / "a/folder/file", "");
  std::filesystem::create_directory_symlink("folder", dir / "a/link");
  std::filesystem::create_symlink("nowhere", dir / "a/dangling");
  const FolderPtr folder = LocalFolder::open(dir / "a");
  EXPECT_THAT(folder->list(dir / "a"),
              UnorderedElementsAre(Pair("file", false), Pair("folder", true), Pair("link", true),
                                   Pair("dangling", false)));
  EXPECT_THAT(folder->list(dir / "a/file"), ::testing::IsEmpty());
  EXPECT_THAT(folder->list(dir / "a/nothing"), ::testing::IsEmpty());
  EXPECT_TRUE(folder->exists(dir / "a/dangling"));
  EXPECT_FALSE(folder->exists(dir / "a/nothing"));
  EXPECT_TRUE(folder->is_folder(dir / "a/link"));
  EXPECT_EQ(folder->identity(dir / "a/link"), folder->identity(dir / "a/folder/"));
  EXPECT_NE(folder->identity(dir / "a/link"), folder->identity(dir / "a"));
  EXPECT_EQ(folder->identity(dir / "a/nothing"), std::nullopt);
  EXPECT_EQ(folder->try_open(dir / "a/nothing"), std::nullopt);
  EXPECT_THAT([&] { (void)folder->open_file(dir / "a/nothing"); },
              FailsWith(Code::kNotFound, "no such file"));
  EXPECT_THAT([&] { (void)folder->open_file(dir / "a/folder"); },
              FailsWith(Code::kDataLoss, "is a directory"));
  EXPECT_THAT([&] { (void)folder->exists(dir / "ab"); },
              FailsWith(Code::kInvalidArgument, "is not inside"));
  EXPECT_THAT([&] { (void)LocalFolder::open(dir / "b"); }, FailsWith(Code::kNotFound));
}

TEST(FolderHandle, OpensTheRoot) { EXPECT_TRUE(LocalFolder::open("/")->is_folder("/tmp")); }

}  // namespace
}  // namespace cairn
