// commit_marker_test.cc -- checkpoints that are written at their path and end with a marker, and
// directories of checkpoints that hold files of others.
#include <cairn/checkpoint_manager.h>
#include <cairn/io/file.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/orbax/checkpoint_directory.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/steps.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/orbax/manager/small_steps.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::put_file;
using cairn::testing::save_step;
using cairn::testing::TempDir;
using cairn::testing::three_steps;
using cairn::testing::tree_of;
using ::testing::ElementsAre;
namespace fs = std::filesystem;

constexpr auto kInPlace = CommitProtocol::kCommitMarker;

Checkpointer in_place() {
  PyTreeCheckpointHandlerOptions options;
  options.commit_protocol = kInPlace;
  return Checkpointer(std::move(options));
}

// What a save leaves that is killed before its commit.
void interrupt(const std::string& checkpoint) {
  fs::remove(checkpoint + "/commit_success.txt");
  put_file(checkpoint + "/_CHECKPOINT_METADATA", R"({"init_timestamp_nsecs": 1})");
}

TEST(CommitMarker, TheCheckpointIsWrittenAtItsPath) {
  const TempDir dir = TempDir::in_memory();
  const std::string path = dir / "ckpt";
  const auto look = [&](const std::string& folder) {
    EXPECT_EQ(folder, path + "/mine");
    EXPECT_FALSE(file_exists(path + "/commit_success.txt"));
    EXPECT_THAT([&] { open(path); }, FailsWith(Code::kUnavailable, "a save to it is in progress"));
    EXPECT_THAT([&] { open(path + "/"); }, FailsWith(Code::kUnavailable, "never committed"));
    fs::create_directory_symlink(path, dir / "link");
    EXPECT_THAT([&] { open(dir / "link"); },
                FailsWith(Code::kUnavailable, "a save to it is in progress"));
    fs::remove(dir / "link");
    EXPECT_THAT([&] { (void)in_place().restore_items(path); },
                FailsWith(Code::kFailedPrecondition, "commit_success.txt"));
  };
  in_place().save_items(path, {{"state", PyTreeSaveArgs{tree_of(1)}},
                               {"mine", FilesItem{.handler = "my.Handler", .write = look}}});
  EXPECT_TRUE(file_exists(path + "/commit_success.txt"));
  EXPECT_THAT(list_directory(dir.path()).folders, ElementsAre("ckpt"));
  EXPECT_EQ(std::get<Tree>(in_place().restore_items(path, {{"state", {}}}).at("state")),
            tree_of(1));
}

// covers: atomicity.CommitFileTemporaryPath
TEST(CommitMarker, ATargetThatExists) {
  const TempDir dir = TempDir::in_memory();
  const std::string path = dir / "ckpt";
  in_place().save(path, PyTreeSaveArgs{tree_of(1)});
  EXPECT_THAT([&] { in_place().save(path, PyTreeSaveArgs{tree_of(2)}); },
              FailsWith(Code::kAlreadyExists, "ckpt"));
  in_place().save(path, PyTreeSaveArgs{tree_of(3)}, {.if_exists = IfExists::kReplace});
  EXPECT_EQ(in_place().restore(path), tree_of(3));
  interrupt(path);
  in_place().save(path, PyTreeSaveArgs{tree_of(4)});
  EXPECT_EQ(in_place().restore(path), tree_of(4));
  fs::create_directory(dir / "empty");
  in_place().save(dir / "empty", PyTreeSaveArgs{tree_of(5)});
  EXPECT_EQ(load(dir / "empty"), tree_of(5));
  put_file(path + "/notes.txt", "mine");
  for (const bool unfinished : {false, true}) {
    if (unfinished) interrupt(path);
    EXPECT_THAT(
        [&] {
          in_place().save(path, PyTreeSaveArgs{tree_of(6)}, {.if_exists = IfExists::kReplace});
        },
        FailsWith(Code::kAlreadyExists, "notes.txt"));
    EXPECT_TRUE(file_exists(path + "/notes.txt"));
  }
}

// Without a marker it is unfinished for those who ask for one, whatever else it has.
// covers: atomicity.AtomicRenameTemporaryPath
// note: A restore refuses an unfinished checkpoint with `failed_precondition` where Orbax's
// `validate` raises ValidationError.
TEST(CommitMarker, OnlyTheMarkerCounts) {
  const TempDir dir = TempDir::in_memory();
  const std::string root = dir / "run";
  CheckpointManager writer(root, three_steps(kInPlace));
  for (const std::int64_t step : {1, 2, 3}) save_step(writer, step);
  fs::remove(root + "/3/commit_success.txt");
  StepWatcherOptions watch;
  watch.timeout = std::chrono::milliseconds(0);
  watch.commit_protocol = kInPlace;
  EXPECT_EQ(StepWatcher(root, watch).next(), 2);
  CheckpointManager manager(root, three_steps(kInPlace));
  EXPECT_THAT(manager.all_steps(), ElementsAre(1, 2));
  EXPECT_EQ(manager.restore(), tree_of(2));
  EXPECT_THAT([&] { (void)manager.restore(3); }, FailsWith(Code::kNotFound, "commit_success.txt"));
  save_step(manager, 3);
  EXPECT_EQ(manager.restore(), tree_of(3));
}

// Versions of Orbax that renamed checkpoints wrote no marker. An unfinished step does not count.
TEST(CommitMarker, LegacyStepsCountOnRequest) {
  const TempDir dir = TempDir::in_memory();
  const std::string root = dir / "run";
  CheckpointManagerOptions options = three_steps(kInPlace);
  options.handler.allow_legacy_atomic_rename = true;
  options.cleanup_tmp_directories = true;
  {
    CheckpointManager writer(root, three_steps());
    for (const std::int64_t step : {1, 2, 3}) save_step(writer, step);
  }
  for (const char* step : {"1", "2"}) fs::remove(root + "/" + step + "/commit_success.txt");
  interrupt(root + "/3");
  StepWatcherOptions watch;
  watch.timeout = std::chrono::milliseconds(0);
  watch.commit_protocol = kInPlace;
  EXPECT_EQ(StepWatcher(root, watch).next(), std::nullopt);
  watch.allow_legacy_atomic_rename = true;
  EXPECT_EQ(StepWatcher(root, watch).next(), 2);
  EXPECT_EQ(std::get<Tree>(Checkpointer(options.handler).restore_items(root + "/1").at("default")),
            tree_of(1));
  AsyncCheckpointer in_background(options.handler);
  EXPECT_EQ(std::get<Tree>(in_background.restore_items(root + "/2").at("default")), tree_of(2));
  EXPECT_THAT([&] { (void)in_place().restore_items(root + "/2"); },
              FailsWith(Code::kFailedPrecondition, "commit_success.txt"));
  std::vector<std::string> left;
  options.handler.observer = [&](const Event& event) { left.emplace_back(event.name); };
  CheckpointManager manager(root, options);
  EXPECT_THAT(left, ElementsAre("steps.found"));  // nothing is in doubt
  EXPECT_THAT(manager.all_steps(), ElementsAre(1, 2));
  EXPECT_FALSE(file_exists(root + "/3"));
  EXPECT_EQ(manager.restore(), tree_of(2));
  for (const std::int64_t step : {3, 4}) save_step(manager, step);
  EXPECT_THAT(manager.all_steps(), ElementsAre(2, 3, 4));
  EXPECT_THAT(list_directory(root).folders, ElementsAre("2", "3", "4"));
}

TEST(CommitMarker, StepsOfInterruptedSaves) {
  const TempDir dir = TempDir::in_memory();
  const std::string root = dir / "run";
  CheckpointManager writer(root, three_steps(kInPlace));
  for (const std::int64_t step : {1, 2, 3}) save_step(writer, step);
  interrupt(root + "/2");
  interrupt(root + "/3");
  EXPECT_EQ(load(root), tree_of(1));
  const auto records = read_steps(root);
  EXPECT_TRUE(records.at(0).complete);
  EXPECT_FALSE(records.at(1).complete);
  EXPECT_NE(records.at(2).reason, "");
  const auto pruned = prune_steps(root, {.keep_last = 1, .dry_run = true});
  EXPECT_EQ(pruned.at(0).outcome, PruneOutcome::kKept);
  fs::create_directory(root + "/notes");
  put_file(root + "/2/notes.txt", "mine");
  std::vector<std::string> left;
  CheckpointManagerOptions options = three_steps(kInPlace);
  options.cleanup_tmp_directories = true;
  options.handler.observer = [&](const Event& event) { left.emplace_back(event.name); };
  EXPECT_THAT(CheckpointManager(root, options).all_steps(), ElementsAre(1));
  EXPECT_THAT(list_directory(root).folders, ElementsAre("1", "2", "notes"));
  EXPECT_THAT(left, ElementsAre("steps.not_removed", "steps.found"));
}

TEST(CommitMarker, CleanRemovesWhatASaveHasLeft) {
  const TempDir dir = TempDir::in_memory();
  const std::string root = dir / "run";
  CheckpointManager writer(root, three_steps(kInPlace));
  for (const std::int64_t step : {1, 2}) save_step(writer, step);
  interrupt(root + "/2");
  fs::create_directory(root + "/3");
  EXPECT_THAT(clean_leftovers(root, {.mode = CleanMode::kShow}), ::testing::SizeIs(1));
  EXPECT_TRUE(file_exists(root + "/2"));
  const auto cleaned = clean_leftovers(root + "/2");
  EXPECT_EQ(cleaned.at(0).outcome, CleanOutcome::kRemoved);
  EXPECT_THAT(list_directory(root).folders, ElementsAre("1", "3"));
}

// A save in the background, of whose process nothing is known but the lock.
// covers: atomicity.AtomicRenameTemporaryPath
// note: A save beside another save to the same path is `unavailable` and removes nothing. Orbax
// removes the files of the other save.
// covers: manager.CheckpointManagerOptions.cleanup_tmp_directories
TEST(CommitMarker, ASaveInProgressIsLeftAlone) {
  const TempDir dir = TempDir::in_memory();
  const std::string root = dir / "run";
  const auto look = [&](const std::string&) {
    EXPECT_EQ(clean_leftovers(root).at(0).outcome, CleanOutcome::kInUse);
    CheckpointManagerOptions options = three_steps(kInPlace);
    options.cleanup_tmp_directories = true;
    EXPECT_THAT(CheckpointManager(root, options).all_steps(), ElementsAre());
    EXPECT_THAT([&] { in_place().save(root + "/1", PyTreeSaveArgs{tree_of(2)}); },
                FailsWith(Code::kUnavailable, "in progress"));
  };
  CheckpointManager manager(root, three_steps(kInPlace));
  manager.save(1, CheckpointItems{{"default", PyTreeSaveArgs{tree_of(1)}},
                                  {"mine", FilesItem{.handler = "my.Handler", .write = look}}});
  EXPECT_THAT(manager.all_steps(), ElementsAre(1));
}

// A program that writes the files of a checkpoint itself.
TEST(CommitMarker, ADirectoryOfTheCaller) {
  const TempDir dir = TempDir::in_memory();
  const std::string path = dir / "ckpt";
  const std::string marker = path + "/commit_success.txt";
  const std::string metadata = path + "/_CHECKPOINT_METADATA";
  {
    CheckpointDirectory directory(path, IfExists::kFail, kInPlace);
    EXPECT_EQ(directory.path(), path);
    put_file(metadata, R"({"init_timestamp_nsecs": 1})");
    put_file(path + "/_METADATA", "{}");
    directory.commit([&] {
      EXPECT_FALSE(file_exists(marker));
      put_file(metadata, R"({"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2})");
    });
  }
  EXPECT_EQ(as_text(read_file(marker)), "Checkpoint commit was successful to " + path);
  EXPECT_THAT([&] { CheckpointDirectory(path, IfExists::kFail, kInPlace); },
              FailsWith(Code::kAlreadyExists, "ckpt"));
  {  // not committed: nothing is left, not even the older one
    const CheckpointDirectory directory(path, IfExists::kReplace, kInPlace);
    EXPECT_FALSE(file_exists(path + "/_METADATA"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(CheckpointDirectory, RestrictsTheFoldersOfItemsInTheSameWay) {
  const TempDir dir = TempDir::in_memory();
  const std::string folder = dir / "item";
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms(02755));
  restrict_permissions(folder, 04770);  // the umask took group write, and only 0777 counts
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms(02750));
  EXPECT_THAT([&] { restrict_permissions(dir / "none", 0700); },
              FailsWith(Code::kNotFound, "none"));
}

// The files are those of Orbax's CheckpointManager. Custom metadata stay byte for byte.
TEST(CheckpointDirectory, RecordsItsSave) {
  for (const CommitProtocol protocol : {CommitProtocol::kAtomicRename, kInPlace}) {
    const TempDir dir = TempDir::in_memory();
    const std::string path = dir / "ckpt";
    const std::string custom = R"({"a": 1e+16, "b": "\ud800", "c": NaN})";
    CheckpointDirectory directory(path, IfExists::kFail, protocol);
    directory.restrict_permissions(0750);
    EXPECT_EQ(fs::status(directory.path()).permissions() & fs::perms(0007), fs::perms::none);
    directory.record_start(custom);
    const auto text = [&](const std::string& folder) {
      return std::string(as_text(read_file(folder + "/_CHECKPOINT_METADATA")));
    };
    const std::string first = text(directory.path());
    const std::string head = R"({"item_handlers": null, "metrics": {}, "performance_metrics": {}, )"
                             R"("init_timestamp_nsecs": )";
    const std::string tail = R"(, "commit_timestamp_nsecs": null, "custom_metadata": )";
    ASSERT_TRUE(first.starts_with(head)) << first;
    ASSERT_TRUE(first.ends_with(tail + custom + "}")) << first;
    const std::string begin =
        first.substr(head.size(), first.size() - head.size() - tail.size() - custom.size() - 1);
    directory.commit_recorded(R"({"default": "my.Handler"})");
    EXPECT_EQ(as_text(read_file(path + "/commit_success.txt")),
              "Checkpoint commit was successful to " + path);
    const std::string last = text(path);
    EXPECT_TRUE(last.starts_with(
        R"({"item_handlers": {"default": "my.Handler"}, "metrics": {}, "performance_metrics": {}, )"
        R"("init_timestamp_nsecs": )" +
        begin + R"(, "commit_timestamp_nsecs": )"))
        << last;
    EXPECT_TRUE(last.ends_with(R"(, "custom_metadata": )" + custom + "}")) << last;
    EXPECT_EQ(last.find("commit_timestamp_nsecs\": null"), std::string::npos);
  }
}

// Any file may belong to a checkpoint that a handler of the program's own wrote.
TEST(ForeignFiles, AreThoseOfAnUnknownHandler) {
  const TempDir dir = TempDir::in_memory();
  const std::string path = dir / "a";
  const auto replace = [&](const std::string& handler) {
    CheckpointDirectory directory(path, IfExists::kReplace, CommitProtocol::kAtomicRename,
                                  ForeignFiles::kKeepFiles);
    directory.record_start();
    put_file(directory.path() + "/data", "x");
    directory.commit_recorded("\"" + handler + "\"");
  };
  for (const char* handler : {"my.Handler", "orbax.checkpoint.checkpoint_args.Wrapper"}) {
    replace(handler);
    fs::create_directory(path + "/folder");
    put_file(path + "/folder/file", "x");
    replace(handler);
    EXPECT_THAT(list_directory(path).folders, ElementsAre()) << handler;
  }
}

TEST(CommitMarker, TheMarkerIsRemovedFirst) {
  const TempDir dir = TempDir::in_memory();
  in_place().save(dir / "ckpt", PyTreeSaveArgs{tree_of(1)});
  remove_checkpoint(dir / "ckpt", kInPlace);
  EXPECT_FALSE(fs::exists(dir / "ckpt"));
  EXPECT_THAT(list_directory(dir.path()).folders, ElementsAre());
}

TEST(CommitMarker, SaveOfATree) {
  const TempDir dir = TempDir::in_memory();
  SaveOptions options;
  options.commit_protocol = kInPlace;
  save(dir / "ckpt", tree_of(1), options);
  EXPECT_TRUE(file_exists(dir / "ckpt/commit_success.txt"));
  EXPECT_EQ(load(dir / "ckpt"), tree_of(1));
  EXPECT_THAT([&] { save(dir / "ckpt", tree_of(1), options); },
              FailsWith(Code::kAlreadyExists, "ckpt"));
}

// A step with files of others: in the step, in an item, and behind a link, which is not followed.
std::string with_foreign_files(const TempDir& dir, const std::string& name) {
  const std::string path = dir / name;
  save(path, tree_of(1));
  put_file(dir / "other/kept.txt", "x");
  put_file(path + "/config.json", "{}");
  fs::create_directory(path + "/assets");
  fs::create_directory_symlink(dir / "other", path + "/link");
  return path;
}

TEST(ForeignFiles, GoWithTheCheckpoint) {
  const TempDir dir = TempDir::in_memory();
  const std::string path = with_foreign_files(dir, "a");
  EXPECT_THAT([&] { remove_checkpoint(path); },
              FailsWith(Code::kAlreadyExists, "does not belong to a checkpoint"));
  EXPECT_TRUE(file_exists(path + "/config.json"));
  remove_checkpoint(path, CommitProtocol::kAtomicRename, ForeignFiles::kRemove);
  EXPECT_FALSE(fs::exists(path));

  const std::string aside = with_foreign_files(dir, "b");
  EXPECT_THAT([&] { set_checkpoint_aside(aside, "gone"); },
              FailsWith(Code::kAlreadyExists, "does not belong to a checkpoint"));
  for (int i = 0; i < 2; ++i) {  // the second one takes the place of the first
    set_checkpoint_aside(aside, "gone", ForeignFiles::kRemove);
    EXPECT_TRUE(file_exists(dir / "gone/b/config.json"));
    (void)with_foreign_files(dir, "b");
  }
  EXPECT_TRUE(file_exists(dir / "other/kept.txt"));
}

TEST(ForeignFiles, GoWhenTheCheckpointIsReplaced) {
  const TempDir dir = TempDir::in_memory();
  const std::string path = with_foreign_files(dir, "a");
  const auto replace = [&](ForeignFiles foreign) {
    CheckpointDirectory directory(path, IfExists::kReplace, CommitProtocol::kAtomicRename, foreign);
    put_file(directory.path() + "/_METADATA", "{}");
    directory.commit();
  };
  EXPECT_THAT([&] { replace(ForeignFiles::kRefuse); },
              FailsWith(Code::kAlreadyExists, "does not belong to a checkpoint"));
  replace(ForeignFiles::kRemove);
  EXPECT_THAT(list_directory(path).files, ElementsAre("_METADATA"));
  EXPECT_TRUE(file_exists(dir / "other/kept.txt"));
  EXPECT_THAT(list_directory(dir.path()).folders, ElementsAre("a", "other"));
}

// What the handlers of JSON, of a protocol buffer and of a random key write is theirs.
TEST(ForeignFiles, AreNotThoseOfTheOnlyHandler) {
  const TempDir dir = TempDir::in_memory();
  const std::string path = dir / "a";
  const auto write = [](const std::string& folder, const std::string& handler,
                        const std::vector<std::string>& files) {
    put_file(folder + "/_CHECKPOINT_METADATA",
             R"({"item_handlers": "orbax.checkpoint._src.handlers.)" + handler + R"("})");
    for (const std::string& file : files) put_file(folder + "/" + file, "{}");
  };
  const auto replace = [&](const std::vector<std::string>& files, ForeignFiles foreign) {
    CheckpointDirectory directory(path, IfExists::kReplace, CommitProtocol::kAtomicRename, foreign);
    write(directory.path(), "json_checkpoint_handler.JsonCheckpointHandler", files);
    directory.commit();
  };
  const std::string key = "random_key_checkpoint_handler.JaxRandomKeyCheckpointHandler";
  write(path, key, {"jax_random_key/checkpoint/.zarray", "jax_random_key_metadata/metadata"});
  replace({"metadata"}, ForeignFiles::kRefuse);
  EXPECT_THAT(list_directory(path).folders, ElementsAre());
  replace({"conf.json"}, ForeignFiles::kRefuse);
  replace({"conf.json"}, ForeignFiles::kKeepFiles);
  EXPECT_THAT(list_directory(path).files, ElementsAre("_CHECKPOINT_METADATA", "conf.json"));
  put_file(path + "/notes.txt", "x");
  EXPECT_THAT([&] { replace({"conf.json"}, ForeignFiles::kRefuse); },
              FailsWith(Code::kAlreadyExists, "does not belong to a checkpoint"));
  replace({"conf.json"}, ForeignFiles::kKeepFiles);
  EXPECT_THAT(list_directory(path).files,
              ElementsAre("_CHECKPOINT_METADATA", "conf.json", "notes.txt"));
  put_file(path + "/jax_random_key/x", "x");  // not of this handler
  EXPECT_THAT([&] { replace({"conf.json"}, ForeignFiles::kKeepFiles); },
              FailsWith(Code::kAlreadyExists, "jax_random_key: is a directory"));
}

TEST(ForeignFiles, BesideTheCheckpointAreKept) {
  const TempDir dir = TempDir::in_memory();
  const std::string path = dir / "a";
  const auto replace = [&](const std::vector<std::string>& files,
                           CommitProtocol protocol = CommitProtocol::kAtomicRename) {
    CheckpointDirectory directory(path, IfExists::kReplace, protocol, ForeignFiles::kKeepFiles);
    for (const std::string& file : files) put_file(directory.path() + "/" + file, "new");
    directory.commit();
  };
  save(path, tree_of(1));
  put_file(path + "/config.json", "{}");
  put_file(path + "/notes.txt", "x");
  replace({"_METADATA"});
  EXPECT_THAT(list_directory(path).files, ElementsAre("_METADATA", "config.json", "notes.txt"));
  EXPECT_EQ(as_text(read_file(path + "/config.json")), "{}");
  EXPECT_EQ(fs::hard_link_count(path + "/config.json"), 1U);
  EXPECT_THAT(list_directory(dir.path()).folders, ElementsAre("a"));

  // The new checkpoint has a file of that name: neither may be lost.
  EXPECT_THAT(
      [&] {
        replace({"_METADATA", "notes.txt"});
      },
      FailsWith(Code::kAlreadyExists, "a/notes.txt: does not belong to the checkpoint"));
  EXPECT_EQ(as_text(read_file(path + "/notes.txt")), "x");
  EXPECT_EQ(as_text(read_file(path + "/_METADATA")), "new");
  EXPECT_THAT(list_directory(dir.path()).folders, ElementsAre("a"));
  // A save in place removes the old checkpoint first.
  EXPECT_THAT([&] { replace({"_METADATA"}, kInPlace); },
              FailsWith(Code::kAlreadyExists, "config.json"));
  // Only files, and only beside the checkpoint's own.
  for (const std::string other : {"photos/j.jpg", "d/j.jpg"}) {
    put_file(path + "/" + other, "x");
    EXPECT_THAT([&] { replace({"_METADATA"}); },
                FailsWith(Code::kAlreadyExists, "does not belong to a checkpoint"));
    EXPECT_TRUE(file_exists(path + "/" + other));
    fs::remove_all(fs::path(path + "/" + other).parent_path());
  }
  fs::create_symlink("notes.txt", path + "/link");
  EXPECT_THAT([&] { replace({"_METADATA"}); }, FailsWith(Code::kAlreadyExists, "a/link"));
  // What a killed save has left is removed, with all that is in it.
  fs::remove(path + "/link");
  put_file(path + ".orbax-checkpoint-tmp/mine/part.bin", "x");
  replace({"_METADATA"});
  EXPECT_THAT(list_directory(path).files, ElementsAre("_METADATA", "config.json", "notes.txt"));
}

TEST(ForeignFiles, OtherDirectoriesStay) {
  const TempDir dir = TempDir::in_memory();
  put_file(dir / "mine/notes.txt", "x");
  put_file(dir / "mine/deep/notes.txt", "x");
  const auto remove = [&] {
    remove_checkpoint(dir / "mine", CommitProtocol::kAtomicRename, ForeignFiles::kRemove);
  };
  EXPECT_THAT(remove, FailsWith(Code::kAlreadyExists, "without the files of a checkpoint"));
  put_file(dir / "mine/default/_METADATA", "{}");  // a step of an old version
  remove();
  EXPECT_FALSE(fs::exists(dir / "mine"));
}

TEST(ForeignFiles, OfAKilledSave) {
  const TempDir dir = TempDir::in_memory();
  const std::string left = dir / "run/3.orbax-checkpoint-tmp";
  put_file(left + "/mine/part.bin", "x");
  EXPECT_EQ(clean_leftovers(dir / "run").at(0).outcome, CleanOutcome::kRefused);
  const auto cleaned = clean_leftovers(dir / "run", {.foreign = ForeignFiles::kRemove});
  EXPECT_EQ(cleaned.at(0).outcome, CleanOutcome::kRemoved);
  put_file(left + "/mine/part.bin", "x");
  EXPECT_THAT([&] { const CheckpointDirectory directory(dir / "run/3"); },
              FailsWith(Code::kAlreadyExists, "cannot be removed"));
  const CheckpointDirectory directory(dir / "run/3", IfExists::kFail, CommitProtocol::kAtomicRename,
                                      ForeignFiles::kRemove);
  EXPECT_FALSE(fs::exists(left + "/mine"));
}

}  // namespace
}  // namespace cairn::orbax
