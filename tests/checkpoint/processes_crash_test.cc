// processes_crash_test.cc -- a process of its own saves together with this one, over files, and is killed at every call that changes files:
// this one gets through or is told who is gone; the target is absent or whole; the next save works. (ThreadSanitizer leaves this file
// out: its children start threads.)
#include <cairn/base/file.h>
#include <cairn/cairn.h>
#include <cairn/checkpointer.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>

#include "tests/support/kill_at.h"
#include "tests/support/matchers.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using testing::same_array;
using testing::TempDir;

const Array& values() {
  static const Array array = [] {
    Array made = Array::allocate(DType::kInt32, {64, 64});
    for (std::size_t i = 0; i < made.bytes().size(); ++i) made.mutable_view().data[i] = static_cast<std::byte>(i * 37 % 251);
    return made;
  }();
  return array;
}

struct Crash {
  const char* name;
  std::size_t killed;  // the process
  bool use_ocdbt;
  bool replaces;
  int first;  // call: those before it, with which it joins the job, are the coordinator's tests' business
};
void PrintTo(const Crash& crash, std::ostream* out) { *out << crash.name; }

// One of two processes, which have a device each.
void save_as(std::size_t process, const TempDir& dir, const Crash& crash) {
  const FilesJob job{.directory = dir / "job", .process_index = process, .process_count = 2, .join_timeout = std::chrono::seconds(2)};
  PyTreeCheckpointHandlerOptions options;
  // Who is killed before it has said that it is there is only known not to come.
  options.multiprocessing_options = {.coordinator = files_coordinator(job), .timeout = std::chrono::seconds(8)};
  options.use_ocdbt = crash.use_ocdbt;
  options.threads = 1;
  const auto device = static_cast<std::int64_t>(process);
  const NamedSharding sharding{make_mesh({2}, {"x"}), {{"x"}}};
  Tree::Dict tree{{"n", Tree(std::int64_t{7})},
                  {"w", Tree(CustomLeaf::of(ShardedArray::from_array(values(), sharding, std::span(&device, 1))))}};
  Checkpointer(options).save(dir / "ckpt", {.item = Tree(std::move(tree))}, {.force = crash.replaces});
}

// 0: nothing is there; else the number in the tree, all of which is there.
std::int64_t number_at(const std::string& path) {
  if (!file_exists(path)) return 0;
  EXPECT_FALSE(open(path)->verify({}).damaged());
  const Tree tree = Checkpointer().restore(path);
  const auto number = std::get<std::int64_t>(tree.find("n")->value());
  EXPECT_TRUE(number != 7 || same_array(gather(*tree.find("w")->custom<ShardedArray>()), values()));
  return number;
}

class JointCrash : public ::testing::TestWithParam<Crash> {};

TEST_P(JointCrash, TheOtherIsToldAndTheTargetIsAbsentOrWhole) {
  const Crash& crash = GetParam();
  Ended ended = Ended::kKilled;
  int told = 0;
  int whole = 0;
  // Every third call: the same ones come again and again.
  for (int n = crash.first; ended == Ended::kKilled; n += 3) {
    SCOPED_TRACE(n);
    const TempDir dir = TempDir::in_memory();
    if (crash.replaces) Checkpointer().save(dir / "ckpt", {.item = Tree(Tree::Dict{{"n", Tree(std::int64_t{1})}})});
    Result<bool> saved = false;
    ended = testing::run_and_kill_at(
        n, [&] { save_as(crash.killed, dir, crash); },
        [&] { saved = try_call([&] { return save_as(1 - crash.killed, dir, crash), true; }); });
    ASSERT_NE(ended, Ended::kBadly);
    const std::int64_t found = number_at(dir / "ckpt");
    if (saved) {
      EXPECT_EQ(found, 7);
      ++whole;
    } else {
      EXPECT_EQ(ended, Ended::kKilled);
      EXPECT_EQ(saved.error().code(), Code::kUnavailable);
      EXPECT_THAT(saved.error().message(), HasSubstr("process " + std::to_string(crash.killed)));
      // The new one may be in place when somebody is killed; then the primary, if it lives, says so.
      const bool in_place = saved.error().message().find("is in place") != std::string::npos;
      EXPECT_TRUE(found == (crash.replaces ? 1 : 0) || (found == 7 && (in_place || crash.killed == 0)))
          << found << ": " << saved.error().message();
      ++told;
    }
    Checkpointer().save(dir / "ckpt", {.item = Tree(Tree::Dict{{"n", Tree(std::int64_t{2})}})}, {.force = true});
    EXPECT_EQ(number_at(dir / "ckpt"), 2);
    EXPECT_FALSE(file_exists(dir / "ckpt.orbax-checkpoint-tmp"));
  }
  EXPECT_EQ(ended, Ended::kWell);
  EXPECT_GT(told, 5);
  EXPECT_GE(whole, 1);
}

INSTANTIATE_TEST_SUITE_P(Processes, JointCrash,
                         ::testing::Values(Crash{"primary", 0, true, false, 46}, Crash{"other", 1, true, false, 32},
                                           Crash{"primary, in files", 0, false, true, 46}, Crash{"other, in files", 1, false, true, 32}));

}  // namespace
}  // namespace cairn
