// run_root_test.cc -- the root of a run in a store: which steps count, with how few requests they
// are found, and that a removal which is cut off at any request leaves no step without its data.
#include <cairn/open.h>
#include <cairn/orbax/manager/run_root.h>
#include <cairn/orbax/manager/step_directory.h>
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/orbax/manager/store_run.h"
#include "tests/support/matchers.h"

namespace cairn::orbax {
namespace {

using cairn::testing::DyingStore;
using cairn::testing::FailsWith;
using cairn::testing::make_unfinished;
using cairn::testing::upload_run;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kNeverDies = 1'000'000;
const CommitRule kReaders = {};
const CommitRule kMarker = {.protocol = CommitProtocol::kCommitMarker};

std::shared_ptr<DyingStore> counted(const std::string& url, std::size_t requests = kNeverDies) {
  return std::make_shared<DyingStore>(open_store(url), requests);
}

std::vector<std::int64_t> steps_of(const StorePtr& store, const std::string& url,
                                   CommitRule rule = kReaders) {
  return find_steps(*make_store_root(store, url), {.commit = rule}, default_executor()).complete;
}

TEST(RunRoot, TheRuleOfTheStoreSaysWhichStepsCount) {
  const std::string url = "memory://rules/run";
  upload_run(url, 4);
  open_store(url + "/2")->remove("commit_success.txt");  // uploaded from an older run
  make_unfinished(url + "/3");
  open_store(url)->write("notes.txt", as_bytes("hello"));
  open_store(url)->write("notes/12", as_bytes("hello"));
  const StorePtr store = open_store(url);
  EXPECT_THAT(steps_of(store, url), ElementsAre(1, 2, 4));
  EXPECT_THAT(steps_of(store, url, kMarker), ElementsAre(1, 4));
  EXPECT_THAT(steps_of(store, url, {CommitProtocol::kCommitMarker, true}), ElementsAre(1, 2, 4));
  EXPECT_THAT(steps_of(store, "gs://bucket/run"), ElementsAre(1, 4));
  EXPECT_THAT(list_step_folders(url), SizeIs(3));
  EXPECT_THAT(list_step_folders(url, {}, CommitProtocol::kCommitMarker), SizeIs(2));
  EXPECT_EQ(load(url), (Tree{{"x", 4}}));
  EXPECT_EQ(load(url, {.step = 1}), (Tree{{"x", 1}}));
}

TEST(RunRoot, AStepThatLacksDataIsNotComplete) {
  const std::string url = "memory://lacking/run";
  upload_run(url, 2);
  const StorePtr store = open_store(url);
  for (const ListEntry& entry : store->list("2/default/d/")) store->remove(entry.key);
  const FoundSteps found = find_steps(*make_store_root(store, url), {}, default_executor());
  EXPECT_THAT(found.complete, ElementsAre(1));
  ASSERT_THAT(found.incomplete, SizeIs(1));
  EXPECT_EQ(found.incomplete[0].step, 2);
  EXPECT_EQ(found.incomplete[0].path, url + "/2");
  EXPECT_THAT(found.incomplete[0].reason, HasSubstr("default/d/"));
  const FoundSteps again = found_steps_of(message_of(found));
  EXPECT_EQ(again.complete, found.complete);
  ASSERT_THAT(again.incomplete, SizeIs(1));
  EXPECT_EQ(again.incomplete[0].path, found.incomplete[0].path);
  EXPECT_EQ(again.incomplete[0].reason, found.incomplete[0].reason);
}

TEST(RunRoot, ARunOfOnePageIsListedWithOneRequest) {
  const std::string url = "memory://page/run";
  upload_run(url, 3);
  const auto store = counted(url);
  const auto root = make_store_root(store, url);
  for (const std::string& name : root->folder_names()) (void)root->presence(name, kMarker);
  EXPECT_EQ(store->requests(), 1U);
}

TEST(RunRoot, ALargerRunIsListedByLevelsAndMarkers) {
  const std::string url = "memory://levels/run";
  upload_run(url, 3);
  make_unfinished(url + "/3");
  const auto store = counted(url);
  store->set_page(20);
  const auto root = make_store_root(store, url);
  EXPECT_THAT(root->folder_names(), ElementsAre("1", "2", "3"));
  EXPECT_EQ(store->requests(), 2U);
  EXPECT_EQ(root->presence("1", kMarker), StepPresence::kCommitted);
  EXPECT_EQ(root->presence("2", kMarker), StepPresence::kCommitted);
  EXPECT_EQ(store->requests(), 4U);
  EXPECT_EQ(root->presence("3", kMarker), StepPresence::kUncommitted);
  EXPECT_EQ(store->requests(), 6U);
  EXPECT_THAT(steps_of(store, url), ElementsAre(1, 2));
}

TEST(RunRoot, ALookForNewerStepsExaminesNoOlderOnes) {
  const std::string url = "memory://newer/run";
  upload_run(url, 9);
  make_unfinished(url + "/9");
  const auto store = counted(url);
  store->set_page(20);
  EXPECT_EQ(find_latest_step(*make_store_root(store, url), {}, 9), std::nullopt);
  EXPECT_LE(store->requests(), 5U);
  EXPECT_EQ(find_latest_step(*make_store_root(store, url), {}), 8);
}

// SeaweedFS lists the prefix of a removed folder for about two minutes.
TEST(RunRoot, AnEmptiedPrefixIsNoStep) {
  const std::string url = "memory://emptied/run";
  upload_run(url, 3);
  const auto store = counted(url);
  store->set_page(20);
  store->show_emptied("7/");
  EXPECT_THAT(make_store_root(store, url)->folder_names(), ElementsAre("1", "2", "3", "7"));
  EXPECT_THAT(steps_of(store, url), ElementsAre(1, 2, 3));
  EXPECT_EQ(find_latest_step(*make_store_root(store, url), {}), 3);
}

TEST(RunRoot, AnEmptyRunHasNoSteps) {
  EXPECT_THAT(steps_of(open_store("memory://nothing/run"), "memory://nothing/run"), IsEmpty());
  EXPECT_FALSE(
      make_store_root(open_store("memory://nothing/run"), "memory://nothing/run")->exists());
  EXPECT_THAT([] { (void)list_step_folders("https://host/run"); },
              FailsWith(Code::kUnimplemented, "https://host/run"));
}

TEST(RunRoot, ARemovalThatIsCutOffLeavesNoStepWithoutItsData) {
  bool saw_whole = false, saw_unfinished = false;
  for (std::size_t requests = 0;; ++requests) {
    const std::string url = "memory://cut/" + std::to_string(requests);
    upload_run(url, 2);
    const auto removed = try_call([&] {
      return make_store_root(counted(url, requests), url)
                 ->remove_step("1", CommitProtocol::kAtomicRename, ForeignFiles::kRefuse),
             true;
    });
    const StorePtr store = open_store(url);
    for (const CommitRule rule : {kReaders, kMarker}) {
      const FoundSteps found =
          find_steps(*make_store_root(store, url), {.commit = rule}, default_executor());
      EXPECT_THAT(found.incomplete, IsEmpty()) << requests;
      saw_whole |= found.complete.size() == 2;
      if (found.complete.size() == 2) {
        EXPECT_EQ(load(url, {.step = 1}), (Tree{{"x", 1}}));
      } else {
        EXPECT_THAT(found.complete, ElementsAre(2)) << requests;
      }
    }
    EXPECT_EQ(load(url), (Tree{{"x", 2}}));
    saw_unfinished |= !store->list("1/").empty() && !store->size("1/commit_success.txt");
    std::vector<std::string> left;
    make_store_root(store, url)->remove_leftovers({}, kReaders, [&](const Error& why) {
      left.push_back(why.message());
    });
    EXPECT_THAT(left, IsEmpty()) << requests;
    // Cut off between the marker and the record: it still counts, and is whole.
    if (!store->list("1/").empty()) {
      EXPECT_EQ(load(url, {.step = 1}), (Tree{{"x", 1}})) << requests;
    }
    EXPECT_FALSE(store->list("2/").empty());
    if (removed) break;
  }
  EXPECT_TRUE(saw_whole);
  EXPECT_TRUE(saw_unfinished);
}

TEST(RunRoot, WhatMayBeWholeOrForeignStays) {
  const std::string url = "memory://stays/run";
  upload_run(url, 4);
  const StorePtr store = open_store(url);
  store->remove("1/commit_success.txt");  // a kill just before the marker
  make_unfinished(url + "/2");
  make_unfinished(url + "/3");
  store->write("3/notes.md", as_bytes("mine"));
  store->write("4/notes.md", as_bytes("mine"));
  std::vector<std::string> left;
  make_store_root(store, url)->remove_leftovers({}, kMarker, [&](const Error& why) {
    left.push_back(why.message());
  });
  EXPECT_THAT(left, ElementsAre(HasSubstr(url + "/1: has no commit_success.txt, but lacks nothing"),
                                HasSubstr(url + "/3/notes.md")));
  EXPECT_THAT(store->list("2/"), IsEmpty());
  EXPECT_FALSE(store->list("3/").empty());
  EXPECT_THAT(
      [&] {
        make_store_root(store, url)
            ->remove_step("4", CommitProtocol::kAtomicRename, ForeignFiles::kRefuse);
      },
      FailsWith(Code::kAlreadyExists, "4/notes.md"));
  EXPECT_TRUE(store->size("4/commit_success.txt"));
  EXPECT_THAT(
      [&] { make_store_root(store, url)->set_step_aside("4", "old", ForeignFiles::kRefuse); },
      FailsWith(Code::kUnimplemented, "a store cannot rename folders"));
}

}  // namespace
}  // namespace cairn::orbax
