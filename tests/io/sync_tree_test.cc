// sync_tree_test.cc -- which files a sync waits for, and which it may leave out.
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/support/fail_at.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using testing::FailsWith;
using ::testing::Not;
using testing::put_file;
using testing::recorded_calls;
using testing::TempDir;

std::string sync_of(const std::string& path) { return "fsync(" + path + ")"; }

TEST(SyncTree, AFileWithSeveralNamesIsSynced) {
  const TempDir dir;
  fs::create_directories(dir / "new");
  put_file(dir / "new/a", "1");
  fs::create_hard_link(dir / "new/a", dir / "backup");
  const auto calls = recorded_calls([&] { sync_tree(dir / "new"); });
  EXPECT_THAT(calls, Contains(sync_of(dir / "new/a")));
  EXPECT_THAT(calls, Contains(sync_of(dir / "new")));
}

TEST(SyncTree, FoldersAreListedWithTheirKindsAndLinksAreNotFollowed) {
  const TempDir dir;
  put_file(dir / "a/b/file", "1");
  fs::create_directory_symlink(dir / "a", dir / "a/link");
  std::map<std::string, EntryKind> found;
  for_each_below(dir / "a", [&](const std::string& path, EntryKind kind) { found[path] = kind; });
  EXPECT_EQ(found, (std::map<std::string, EntryKind>{{dir / "a/b", EntryKind::kDirectory},
                                                     {dir / "a/b/file", EntryKind::kFile},
                                                     {dir / "a/link", EntryKind::kLink}}));
  EXPECT_THAT([&] { for_each_below(dir / "none", [](const auto&, EntryKind) {}); },
              FailsWith(Code::kNotFound, "none: cannot list it"));
}

// Tracks the file as a save does that remembers its values.
void track(SyncedFiles& synced, const std::string& path) {
  const File file = File::open(path);
  EXPECT_TRUE(file.stamp());
  synced.track({file.state()});
}

TEST(SyncTree, WhatIsSyncedIsLeftOutUntilSomebodyWritesToIt) {
  const TempDir dir;
  for (const char* folder : {"old", "new"}) fs::create_directories(dir / folder);
  SyncedFiles synced;
  for (const char* name : {"a", "b", "c"}) put_file(dir / (std::string("old/") + name), "1");
  track(synced, dir / "old/a");
  track(synced, dir / "old/b");
  for (const char* name : {"a", "b", "c"})
    fs::create_hard_link(dir / (std::string("old/") + name), dir / (std::string("new/") + name));
  const auto calls = [&] { return recorded_calls([&] { sync_tree(dir / "new", &synced); }); };
  // Nothing is synced yet, and what the child notes is lost with it.
  for (const char* name : {"a", "b", "c"})
    EXPECT_THAT(calls(), Contains(sync_of(dir / (std::string("new/") + name))));
  sync_tree(dir / "old", &synced);
  EXPECT_THAT(calls(), Not(Contains(sync_of(dir / "new/a"))));
  EXPECT_THAT(calls(), Contains(sync_of(dir / "new")));
  EXPECT_THAT(calls(), Contains(sync_of(dir / "new/c")));  // nobody tracks it
  put_file(dir / "old/b", "2");
  EXPECT_THAT(calls(), Contains(sync_of(dir / "new/b")));
}

TEST(SyncedFiles, AreForgottenUnlessTheyAreSharedAgain) {
  SyncedFiles synced;
  const FileState kept{.device = 1, .inode = 2, .size = 3, .modified_ns = 4};
  const FileState dropped{.device = 1, .inode = 3, .size = 3, .modified_ns = 4};
  synced.track({kept, dropped});
  EXPECT_FALSE(synced.has(kept));
  synced.note({kept, dropped});
  for (int i = 0; i < 20; ++i) synced.track({kept});
  EXPECT_TRUE(synced.has(kept));
  EXPECT_FALSE(synced.has(dropped));
  synced.note({dropped});  // not tracked any more
  EXPECT_FALSE(synced.has(dropped));
}

}  // namespace
}  // namespace cairn
