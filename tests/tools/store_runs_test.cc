// store_runs_test.cc -- runs in stores are listed, pruned and cleaned as those in folders are.
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/steps.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/orbax/manager/store_run.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_unfinished;
using ::testing::SizeIs;
using testing::upload_run;

std::vector<std::int64_t> complete_steps(const std::string& url) {
  std::vector<std::int64_t> steps;
  for (const StepRecord& record : read_steps(url))
    if (record.complete) steps.push_back(record.step);
  return steps;
}

TEST(StoreRuns, AreListed) {
  const std::string url = "memory://tools/listed";
  upload_run(url, 3);
  make_unfinished(url + "/3");
  open_store(url)->write("epoch=1/_CHECKPOINT_METADATA", as_bytes("{}"));
  const std::vector<StepRecord> steps = read_steps(url + "/");
  ASSERT_THAT(steps, SizeIs(3));
  std::uint64_t bytes = 0;
  for (const ListEntry& entry : open_store(url)->list("1/")) bytes += entry.size;
  EXPECT_EQ(steps[0].step, 1);
  EXPECT_EQ(steps[0].path, url + "/1");
  EXPECT_EQ(steps[0].nbytes, bytes);
  EXPECT_EQ(steps[0].unique_nbytes, bytes);
  EXPECT_TRUE(steps[0].committed_at_ns);
  EXPECT_THAT(steps[0].items, ElementsAre("default", "metrics"));
  EXPECT_EQ(steps[0].metrics, (Metrics{{"loss", 1.0}}));
  EXPECT_TRUE(steps[0].complete);
  EXPECT_FALSE(steps[2].complete);
  EXPECT_THAT(steps[2].reason, HasSubstr("commit_success.txt"));
  EXPECT_THAT(find_unnamed_steps(url), ElementsAre("epoch=1"));
  EXPECT_EQ(incomplete_reason(url + "/2"), "");
  EXPECT_THAT(incomplete_reason(url + "/3"), HasSubstr("commit_success.txt"));
  EXPECT_THAT([&] { (void)read_steps(url + "/2"); },
              FailsWith(Code::kInvalidArgument, "one checkpoint"));
  EXPECT_THAT([&] { (void)read_steps(url + "/9"); }, FailsWith(Code::kNotFound, url + "/9"));
}

TEST(StoreRuns, ArePruned) {
  const std::string url = "memory://tools/pruned";
  upload_run(url, 5);
  open_store(url)->write("2/notes.txt", as_bytes("mine"));
  PruneOptions options{.keep_last = 1, .best = "loss", .dry_run = true};
  EXPECT_THAT(prune_steps(url, options), SizeIs(5));
  EXPECT_THAT(complete_steps(url), SizeIs(5));
  options.dry_run = false;
  const std::vector<PrunedStep> pruned = prune_steps(url, options);
  std::vector<PruneOutcome> outcomes;
  for (const PrunedStep& step : pruned) outcomes.push_back(step.outcome);
  EXPECT_THAT(outcomes,
              ElementsAre(PruneOutcome::kKept, PruneOutcome::kRefused, PruneOutcome::kRemoved,
                          PruneOutcome::kRemoved, PruneOutcome::kKept));
  EXPECT_THAT(pruned[1].why, HasSubstr("2/notes.txt"));
  EXPECT_THAT(complete_steps(url), ElementsAre(1, 2, 5));
  EXPECT_EQ(load(url), (Tree{{"x", 5}}));
}

TEST(StoreRuns, AreCleaned) {
  const std::string url = "memory://tools/cleaned";
  upload_run(url, 5);
  const StorePtr store = open_store(url);
  for (const char* step : {"/2", "/3", "/5"}) make_unfinished(url + step);
  store->write("3/notes.txt", as_bytes("mine"));
  store->remove("4/commit_success.txt");  // counts on this store
  store->write("notes/7", as_bytes("mine"));
  const auto shown = clean_leftovers(url, {.mode = CleanMode::kShow});
  ASSERT_THAT(shown, SizeIs(3));
  EXPECT_EQ(shown[0].path, url + "/2");
  EXPECT_GT(shown[0].bytes, 0U);
  EXPECT_EQ(shown[0].outcome, CleanOutcome::kRemoved);
  EXPECT_EQ(shown[1].outcome, CleanOutcome::kRefused);
  EXPECT_THAT(shown[1].why, HasSubstr("3/notes.txt"));
  EXPECT_FALSE(store->list("2/").empty());
  EXPECT_THAT(clean_leftovers(url + "/5"), SizeIs(1));
  EXPECT_THAT(store->list("5/"), IsEmpty());
  EXPECT_THAT(clean_leftovers(url), SizeIs(2));
  EXPECT_THAT(store->list("2/"), IsEmpty());
  EXPECT_FALSE(store->list("3/").empty());
  EXPECT_FALSE(store->list("notes/").empty());
  EXPECT_THAT(complete_steps(url), ElementsAre(1, 4));
  EXPECT_THAT(clean_leftovers(url, {.foreign = ForeignFiles::kRemove}), SizeIs(1));
  EXPECT_THAT(store->list("3/"), IsEmpty());
  EXPECT_THAT([&] { (void)clean_leftovers("memory://tools/none"); },
              FailsWith(Code::kNotFound, "memory://tools/none"));
}

}  // namespace
}  // namespace cairn
