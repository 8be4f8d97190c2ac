// store_turns_test.cc -- two programs save, remove and clean one step of a store at the same time.
// Each of them stops at any of its requests while the other one works.
#include <cairn/cairn.h>
#include <cairn/checkpoint_manager.h>
#include <cairn/kvstore/memory_names.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/open.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/orbax/manager/store_run.h"
#include "tests/support/sanitizers.h"
#include "tests/support/seed.h"
#include "tests/support/turns.h"

namespace cairn::orbax {
namespace {

using cairn::testing::Program;
using cairn::testing::upload_run;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kDraws = 120 / cairn::testing::kFewer;  // of each pair of programs

// The store at memory://NAME/ with a name that nobody else uses.
struct NamedStore {
  explicit NamedStore(const StorePtr& store) : name("turns-" + std::to_string(count()++)) {
    name_memory_store(name, store);
  }
  NamedStore(const NamedStore&) = delete;
  NamedStore& operator=(const NamedStore&) = delete;
  ~NamedStore() { name_memory_store(name, make_memory_store()); }

  [[nodiscard]] std::string run() const { return "memory://" + name + "/run"; }
  [[nodiscard]] std::string step() const { return run() + "/2"; }

  static std::atomic<int>& count() {
    static std::atomic<int> count{0};
    return count;
  }
  std::string name;
};

// What a program does with step 2 of a run, and what that may leave.
struct Work {
  std::string name;
  std::function<void(const NamedStore&)> run;
  std::optional<std::int64_t> saves = std::nullopt;  // the value
  bool removes_complete = false;
  bool removes_unfinished = false;
};

Work saving(std::int64_t value) {
  return {.name = "save " + std::to_string(value),
          .run =
              [value](const NamedStore& store) {
                save_orbax(store.step(), Tree{{"x", value}},
                           {.item = "default", .if_exists = IfExists::kReplace});
              },
          .saves = value};
}

Work saving_with_a_manager(std::int64_t value) {
  return {.name = "manager",
          .run =
              [value](const NamedStore& store) {
                CheckpointManager manager(store.run(), {.enable_async_checkpointing = false});
                if (!manager.save(2, PyTreeSaveArgs{Tree{{"x", value}}}, {.force = true}))
                  throw Error(Code::kAlreadyExists, "not saved");
              },
          .saves = value};
}

Work removing() {
  return {.name = "remove",
          .run = [](const NamedStore& store) { CheckpointManager(store.run()).remove(2); },
          .removes_complete = true};
}

Work pruning() {
  return {.name = "prune",
          .run = [](const NamedStore& store) { (void)prune_steps(store.run(), {.keep_last = 1}); },
          .removes_complete = true};
}

Work cleaning() {
  return {.name = "clean",
          .run = [](const NamedStore& store) { (void)clean_leftovers(store.run()); },
          .removes_unfinished = true};
}

Work cleaning_with_a_manager() {
  return {.name = "manager that cleans",
          .run =
              [](const NamedStore& store) {
                CheckpointManager(store.run(), {.cleanup_tmp_directories = true});
              },
          .removes_unfinished = true};
}

enum class Before { kAbsent, kComplete, kUnfinished };

StorePtr make_run(Before before) {
  StorePtr base = make_memory_store();
  const NamedStore store(base);
  upload_run(store.run(), 3);
  if (before == Before::kUnfinished) testing::make_unfinished(store.step());
  if (before == Before::kAbsent)
    for (const ListEntry& entry : base->list("run/2/")) base->remove(entry.key);
  return base;
}

// The value of step 2; nullopt if there is none that is complete.
std::optional<std::int64_t> value_of(const NamedStore& store) {
  const auto loaded = try_call([&] { return load(store.step(), {.item = "default"}); });
  if (loaded) {
    EXPECT_EQ(verify(store.step()).verdict(), Verdict::kGood);
    for (const std::int64_t value : {2, 9, 11, 12})
      if (loaded.value() == Tree{{"x", value}}) return value;
    ADD_FAILURE() << "wrong bytes";
    return std::nullopt;
  }
  EXPECT_THAT(loaded.error().code(), AnyOf(Code::kNotFound, Code::kFailedPrecondition))
      << loaded.error().what();
  return std::nullopt;
}

void expect_known_error(const Error& error) {
  EXPECT_THAT(error.code(), AnyOf(Code::kUnavailable, Code::kAlreadyExists, Code::kNotFound))
      << error.what();
}

// What may be there after both have ended.
void check(Before before, const Work& first, const std::optional<Error>& first_error,
           const Work& second, const std::optional<Error>& second_error, const NamedStore& store) {
  const auto found = value_of(store);
  std::vector<std::optional<std::int64_t>> allowed;
  const bool removed = first.removes_complete || second.removes_complete;
  const auto saved = [](const Work& work, const std::optional<Error>& error) {
    return work.saves.has_value() && !error;
  };
  if (saved(first, first_error)) allowed.push_back(first.saves);
  if (saved(second, second_error)) allowed.push_back(second.saves);
  const bool any_saved = !allowed.empty();
  if (before == Before::kComplete && !any_saved && !(first.removes_complete && !first_error) &&
      !(second.removes_complete && !second_error))
    allowed.emplace_back(2);
  if (removed || !any_saved) allowed.emplace_back(std::nullopt);
  EXPECT_THAT(allowed, Contains(found));
  for (const auto* error : {&first_error, &second_error})
    if (*error) expect_known_error(**error);
  // If two saves fail, one of them says why.
  if (first.saves && second.saves && first_error && second_error) {
    EXPECT_THAT(std::string(first_error->what()) + second_error->what(),
                AnyOf(HasSubstr("another save"), HasSubstr("already exists"),
                      HasSubstr("while Cairn read it")));
  }
}

// The others are as they were, and what comes next needs no help.
void check_afterwards(const NamedStore& store) {
  EXPECT_EQ(load(store.run() + "/3"), (Tree{{"x", 3}}));
  saving(9).run(store);
  EXPECT_EQ(value_of(store), 9);
  (void)clean_leftovers(store.run());
  EXPECT_EQ(value_of(store), 9);
}

std::string text_of(const std::optional<Error>& error) { return error ? error->what() : "done"; }

std::string keys_of(const KvStore& store) {
  std::string text;
  for (const ListEntry& entry : store.list("run/2/")) text += " " + entry.key;
  return text;
}

void take_turns(Before before, const Work& first, int first_stop, const Work& second,
                int second_stop) {
  SCOPED_TRACE(first.name + " stops at " + std::to_string(first_stop) + ", " + second.name +
               " at " + std::to_string(second_stop));
  const StorePtr base = make_run(before);
  Program one(base, first_stop, [&](const StorePtr& store) { first.run(NamedStore(store)); });
  Program two(base, second_stop, [&](const StorePtr& store) { second.run(NamedStore(store)); });
  const std::optional<Error>& first_error = one.finish();
  const std::optional<Error>& second_error = two.finish();
  const NamedStore store(base);
  SCOPED_TRACE("first: " + text_of(first_error) + "; second: " + text_of(second_error) +
               "; left:" + keys_of(*base));
  check(before, first, first_error, second, second_error, store);
  check_afterwards(store);
}

int requests_alone(Before before, const Work& work) {
  Program program(make_run(before), 1 << 20,
                  [&](const StorePtr& store) { work.run(NamedStore(store)); });
  EXPECT_FALSE(program.finish()) << work.name << ": " << program.finish()->what();
  return program.requests();
}

// CAIRN_LONG: at every pair of requests.
void take_many_turns(Before before, const Work& first, const Work& second) {
  const int most_first = requests_alone(before, first);
  const int most_second = requests_alone(before, second) + 4;
  if (std::getenv("CAIRN_LONG") != nullptr) {
    for (int i = 0; i <= most_first; ++i)
      for (int j = 0; j <= most_second; ++j) take_turns(before, first, i, second, j);
    return;
  }
  std::mt19937 random(testing::seed());
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int n = 0; n < kDraws && !::testing::Test::HasFailure(); ++n)
    take_turns(before, first, draw(most_first), second, draw(most_second));
}

TEST(StoreTurns, TwoSaves) {
  take_many_turns(Before::kAbsent, saving(11), saving(12));
  take_many_turns(Before::kComplete, saving(11), saving(12));
  take_many_turns(Before::kUnfinished, saving(11), saving(12));
}

TEST(StoreTurns, TwoManagersSaveOneStep) {
  take_many_turns(Before::kAbsent, saving_with_a_manager(11), saving_with_a_manager(12));
  take_many_turns(Before::kUnfinished, saving_with_a_manager(11), saving_with_a_manager(12));
}

TEST(StoreTurns, TwoRemovals) {
  take_many_turns(Before::kComplete, removing(), removing());
  take_many_turns(Before::kComplete, removing(), pruning());
  take_many_turns(Before::kComplete, pruning(), pruning());
}

TEST(StoreTurns, ARemovalBesideASave) {
  take_many_turns(Before::kComplete, removing(), saving(11));
  take_many_turns(Before::kComplete, saving(11), removing());
  take_many_turns(Before::kComplete, pruning(), saving(11));
  take_many_turns(Before::kComplete, saving(11), pruning());
}

TEST(StoreTurns, CleaningBesideASave) {
  for (const Before before : {Before::kAbsent, Before::kUnfinished, Before::kComplete}) {
    take_many_turns(before, cleaning(), saving(11));
    take_many_turns(before, saving(11), cleaning());
    take_many_turns(before, saving(11), cleaning_with_a_manager());
    take_many_turns(before, cleaning_with_a_manager(), saving(11));
  }
}

TEST(StoreTurns, TwoThatClean) {
  take_many_turns(Before::kUnfinished, cleaning(), cleaning());
  take_many_turns(Before::kUnfinished, cleaning(), cleaning_with_a_manager());
}

}  // namespace
}  // namespace cairn::orbax
