// store_directory_test.cc -- CheckpointDirectory in a store, and handlers that write below it.
#include <cairn/kvstore/memory_names.h>
#include <cairn/open.h>
#include <cairn/orbax/checkpoint_directory.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/storage/kvstore.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/faulty_store.h"
#include "tests/support/matchers.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::FaultyStore;
using cairn::testing::StoreFault;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> keys(const std::string& url) {
  const std::vector<ListEntry> entries = open_store(url)->list("");
  std::vector<std::string> found;
  found.reserve(entries.size());
  for (const ListEntry& entry : entries) found.push_back(entry.key);
  return found;
}

std::string text_at(const std::string& url, const std::string& key) {
  const auto value = open_store(url)->read(key, {});
  return value ? std::string(as_text(*value)) : "";
}

PyTreeSaveArgs tree(std::int64_t x) { return {.item = Tree{{"x", x}}}; }

void save(const std::string& url, std::int64_t x, IfExists if_exists = IfExists::kFail,
          ForeignFiles foreign = ForeignFiles::kRefuse) {
  CheckpointDirectory directory(url, if_exists, CommitProtocol::kAtomicRename, foreign);
  directory.record_start();
  PyTreeCheckpointHandler handler;
  handler.save(directory.path(), tree(x));
  handler.finalize(directory.path());
  directory.commit_recorded(R"("my.Handler")");
}

TEST(StoreDirectory, IsWrittenInPlace) {
  const std::string url = "memory://written/run/1";
  {
    CheckpointDirectory directory(url + "/");
    EXPECT_EQ(directory.path(), url);
    directory.restrict_permissions(0700);
    directory.record_start(R"({"a": 1})");
    EXPECT_THAT(keys(url), ::testing::ElementsAre("_CHECKPOINT_METADATA"));
    PyTreeCheckpointHandler handler;
    handler.save(url, tree(5));
    handler.finalize(url);
    open_store(url)->write("mine/file", as_bytes("x"));  // of a handler of the program's own
    EXPECT_THAT(keys(url), Not(Contains("commit_success.txt")));
    directory.commit_recorded(R"("my.Handler")");
  }
  EXPECT_EQ(text_at(url, "commit_success.txt"), "Checkpoint commit was successful to " + url);
  EXPECT_THAT(text_at(url, "_CHECKPOINT_METADATA"), ::testing::HasSubstr(R"("my.Handler")"));
  EXPECT_EQ(open(url)->load(), (Tree{{"x", 5}}));
  EXPECT_THAT(keys(url), Contains("mine/file"));
  EXPECT_FALSE(std::filesystem::exists("memory:"));
}

TEST(StoreDirectory, LeavesNothingWithoutACommit) {
  const std::string url = "memory://left/1";
  {
    CheckpointDirectory directory(url);
    directory.record_start();
    PyTreeCheckpointHandler().save(url, tree(5));
    open_store(url)->write("mine", as_bytes("x"));
  }
  EXPECT_THAT(keys(url), IsEmpty());
  PyTreeCheckpointHandler().save(url, tree(6));  // the claim has gone with the directory
  PyTreeCheckpointHandler().save(url, tree(7));
  EXPECT_THAT(keys(url), Contains("_METADATA"));
}

TEST(StoreDirectory, TheLaterOfTwoSavesWins) {
  const std::string url = "memory://raced/1";
  {
    CheckpointDirectory first(url);
    first.record_start();
    PyTreeCheckpointHandler().save(url, tree(1));
    save(url, 2, IfExists::kFail, ForeignFiles::kKeepFiles);
    EXPECT_THAT([&] { first.commit_recorded("null"); },
                FailsWith(Code::kUnavailable, "another save"));
  }
  EXPECT_EQ(open(url)->load(), (Tree{{"x", 2}}));
}

TEST(StoreDirectory, ReplacesOnlyCheckpoints) {
  const std::string url = "memory://replaced/1";
  save(url, 1);
  EXPECT_THAT([&] { save(url, 2); }, FailsWith(Code::kAlreadyExists, "already exists"));
  open_store(url)->write("mine", as_bytes("x"));
  // One handler of the program's own has written it, so all files belong to it.
  EXPECT_THAT([&] { save(url, 2, IfExists::kReplace); }, FailsWith(Code::kAlreadyExists, "mine"));
  save(url, 2, IfExists::kReplace, ForeignFiles::kKeepFiles);
  EXPECT_EQ(open(url)->load(), (Tree{{"x", 2}}));
  EXPECT_THAT(keys(url), Not(Contains("mine")));
  open_store(url)->write("mine", as_bytes("x"));
  EXPECT_THAT([&] { remove_checkpoint(url); }, FailsWith(Code::kAlreadyExists, "mine"));
  EXPECT_THAT([&] { set_checkpoint_aside(url, "old"); },
              FailsWith(Code::kUnimplemented, "a local path is needed"));
  remove_checkpoint(url, CommitProtocol::kAtomicRename, ForeignFiles::kRemove);
  EXPECT_THAT(keys(url), IsEmpty());
  remove_checkpoint(url);
  EXPECT_THAT([&] { CheckpointDirectory directory("https://host/c"); },
              FailsWith(Code::kUnimplemented, "can only be read"));
}

// A copy that is cut off at any request is unfinished, or is not there; the source stays as it was.
TEST(StoreDirectory, CopiesAreWholeOrUnfinished) {
  const auto base = make_memory_store();
  name_memory_store("copied", base);
  save("memory://copied/run/1", 5);
  base->write("run/1/orbax.checkpoint", {});  // as version 1 has it
  const std::string target = "memory://copied/snapshots/1";
  const auto wanted = keys("memory://copied/run/1");
  int cut = 0;
  for (int operation = 0;; ++operation) {
    name_memory_store("copied", std::make_shared<FaultyStore>(
                                    base, StoreFault{.operation = operation, .lasts = true}));
    const auto copied = try_call([&] {
      copy_checkpoint("memory://copied/run/1", target);
      return true;
    });
    name_memory_store("copied", base);
    if (copied) break;
    ++cut;
    EXPECT_FALSE(keys(target) == wanted) << operation;
    if (keys(target).empty()) continue;
    // The record of a whole checkpoint comes when all its values are there.
    if (text_at(target, "_CHECKPOINT_METADATA") ==
        text_at("memory://copied/run/1", "_CHECKPOINT_METADATA")) {
      EXPECT_EQ(open(target)->load(), (Tree{{"x", 5}}));
    } else {
      EXPECT_THAT([&] { (void)open(target); }, FailsWith(Code::kFailedPrecondition, "its save"))
          << operation;
    }
    EXPECT_THAT([&] { copy_checkpoint("memory://copied/run/1", target); },
                FailsWith(Code::kAlreadyExists, "nothing is copied there"));
    remove_checkpoint(target);
  }
  EXPECT_GT(cut, 5);
  EXPECT_EQ(keys(target), wanted);
  EXPECT_EQ(open(target)->load(), (Tree{{"x", 5}}));
  EXPECT_EQ(open("memory://copied/run/1")->load(), (Tree{{"x", 5}}));
}

// The values of a copy or a save arrive in any order, and any of them may be the last one.
TEST(StoreDirectory, RemovesUnfinishedOnesWithAnyPart) {
  const auto base = make_memory_store();
  name_memory_store("parts", base);
  const std::string url = "memory://parts/run/1";
  std::string record;
  {
    CheckpointDirectory directory(url);
    directory.record_start();
    record = text_at(url, "_CHECKPOINT_METADATA");
  }
  const auto leave = [&](const std::string& part) {
    base->write("run/1/_CHECKPOINT_METADATA", as_bytes(record));
    base->write("run/1/" + part, {});
  };
  for (const std::string part : {"d/0123456789abcdef0123456789abcdef", "array_metadatas/process_0",
                                 "default/d/0123456789abcdef0123456789abcdef", "w/0.0"}) {
    leave(part);
    remove_checkpoint(url);
    EXPECT_THAT(keys(url), IsEmpty()) << part;
  }
  // What is not of a checkpoint is never removed.
  leave("d/notes.txt");
  EXPECT_THAT([&] { remove_checkpoint(url); }, FailsWith(Code::kAlreadyExists, "d/notes.txt"));
}

// Leaves that are saved apart become part of the item.
TEST(StoreDirectory, PlacesFoldersOfLeaves) {
  for (const bool use_ocdbt : {true, false}) {
    const std::string url = std::string("memory://placed/") + (use_ocdbt ? "1" : "2");
    CheckpointDirectory directory(url);
    directory.record_start();
    PyTreeCheckpointHandlerOptions options;
    options.use_ocdbt = use_ocdbt;
    PyTreeCheckpointHandler handler(options);
    const std::string folder = make_leaf_folder(url, use_ocdbt);
    EXPECT_NE(folder, make_leaf_folder(url, use_ocdbt));
    handler.save(folder, {.item = Tree{{"a", 1}, {"s", "one"}}});
    handler.save(url, {.item = Tree{{"a", Tree(CustomLeaf::of(LeafType{"scalar"}))},
                                    {"s", Tree(CustomLeaf::of(LeafType{"string"}))},
                                    {"t", "two"}}});
    place_leaf_folder(folder, url);
    place_shared_leaf_folders(url);
    handler.finalize(url);
    directory.commit_recorded("null");
    EXPECT_EQ(open(url)->load(), (Tree{{"a", 1}, {"s", "one"}, {"t", "two"}}));
    EXPECT_EQ(keys(folder).empty(), !use_ocdbt);  // a database stays where it is
  }
}

// The databases of processes get names beside those of the others, and the first one moves them.
TEST(StoreDirectory, PlacesSharedFoldersOfLeaves) {
  const std::string url = "memory://placed_together/1";
  CheckpointDirectory directory(url);
  directory.record_start();
  PyTreeCheckpointHandler handler;
  const std::string folder = make_shared_leaf_folder(url, "ab12");
  EXPECT_EQ(make_shared_leaf_folder(url, "ab12"), folder);
  handler.save(folder + "/ocdbt.process_1", {.item = Tree{{"a", 1}, {"b", 2}}});
  handler.save(folder, {.item = Tree{{"s", "one"}}});
  handler.save(url, {.item = Tree{{"a", Tree(CustomLeaf::of(LeafType{"scalar"}))},
                                  {"b", Tree(CustomLeaf::of(LeafType{"scalar"}))},
                                  {"s", Tree(CustomLeaf::of(LeafType{"string"}))}}});
  place_shared_leaf_folders(url);
  EXPECT_TRUE(keys(folder).empty());
  EXPECT_FALSE(keys(url + "/ocdbt.process_cairnab12x1").empty());
  handler.finalize(url);
  directory.commit_recorded("null");
  EXPECT_EQ(open(url)->load(), (Tree{{"a", 1}, {"b", 2}, {"s", "one"}}));
}

}  // namespace
}  // namespace cairn::orbax
