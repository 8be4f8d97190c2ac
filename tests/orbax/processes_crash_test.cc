// processes_crash_test.cc -- a process of its own saves together with threads of this one, over
// files, and is killed at every call that changes files: the others get through or are told who is
// gone; the target is absent or whole; the next save works. (ThreadSanitizer leaves this file out:
// its children start threads.)
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "tests/support/kill_at.h"
#include "tests/support/matchers.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
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
    for (std::size_t i = 0; i < made.bytes().size(); ++i)
      made.mutable_view().data[i] = static_cast<std::byte>(i * 37 % 251);
    return made;
  }();
  return array;
}

// The call to begin with: those before it, with which a process makes the job's folder and leaves
// its mark there, are the coordinator's tests' business.
constexpr int kFirstCall = 12;
// who is killed is known to have ended, so nobody waits that long
constexpr auto kHang = std::chrono::seconds(60);

struct Crash {
  const char* name;
  std::size_t count;   // of processes
  std::size_t killed;  // which of them
  bool use_ocdbt;
  bool replaces;
};
void PrintTo(const Crash& crash, std::ostream* out) { *out << crash.name; }

// One of the processes, which have a device each.
void save_as(std::size_t process, const TempDir& dir, const Crash& crash) {
  const FilesJob job{.directory = dir / "job",
                     .process_index = process,
                     .process_count = crash.count,
                     .run_id = "r"};
  PyTreeCheckpointHandlerOptions options;
  options.multiprocessing_options = {
      .coordinator = files_coordinator(job), .timeout = kHang, .write_timeout = kHang};
  options.use_ocdbt = crash.use_ocdbt;
  options.resources.threads = 1;
  const auto device = static_cast<std::int64_t>(process);
  const NamedSharding sharding{make_mesh({static_cast<std::int64_t>(crash.count)}, {"x"}), {{"x"}}};
  Tree::Dict tree{{"n", Tree(std::int64_t{7})},
                  {"w", Tree(ShardedArray::from_array(values(), sharding, std::span(&device, 1)))}};
  Checkpointer(options).save(dir / "ckpt", {.item = Tree(std::move(tree))},
                             {.if_exists = crash.replaces ? IfExists::kReplace : IfExists::kFail});
}

// All but the one that is killed; what became of each.
std::vector<Result<bool>> others_save(const TempDir& dir, const Crash& crash) {
  std::vector<Result<bool>> saved(crash.count - 1, false);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < saved.size(); ++i)
    threads.emplace_back([&, i] {
      saved[i] = try_call([&] { return save_as(i < crash.killed ? i : i + 1, dir, crash), true; });
    });
  return threads.clear(), saved;
}

// 0: nothing is there; else the number in the tree, all of which is there.
std::int64_t number_at(const std::string& path) {
  if (!file_exists(path)) return 0;
  EXPECT_FALSE(open(path)->verify({}).damaged());
  const Tree tree = Checkpointer().restore(path);
  const auto number = std::get<std::int64_t>(tree.find("n")->value());
  EXPECT_TRUE(number != 7 ||
              same_array(gather_shards(*tree.find("w")->custom<ShardedArray>()), values()));
  return number;
}

class MultiprocessCrash : public ::testing::TestWithParam<Crash> {};

TEST_P(MultiprocessCrash, TheOthersAreToldAndTheTargetIsAbsentOrWhole) {
  const Crash& crash = GetParam();
  Ended ended = Ended::kKilled;
  int told = 0;
  int whole = 0;
  // Not every call: the same ones come again and again.
  const int step = (crash.count == 2 ? 3 : 5) * (testing::kSanitized ? 2 : 1);
  for (int n = kFirstCall; ended == Ended::kKilled; n += step) {
    SCOPED_TRACE(n);
    const TempDir dir = TempDir::in_memory();
    if (crash.replaces)
      Checkpointer().save(dir / "ckpt", {.item = Tree(Tree::Dict{{"n", Tree(std::int64_t{1})}})});
    std::vector<Result<bool>> saved;
    ended = testing::run_and_kill_at(
        n, [&] { save_as(crash.killed, dir, crash); }, [&] { saved = others_save(dir, crash); });
    ASSERT_NE(ended, Ended::kBadly);
    const std::int64_t found = number_at(dir / "ckpt");
    for (const auto& of_one : saved) {
      ASSERT_EQ(bool(of_one), bool(saved.front())) << "the others do not agree";
      if (of_one) {
        EXPECT_EQ(found, 7);
      } else {
        EXPECT_EQ(ended, Ended::kKilled);
        EXPECT_EQ(of_one.error().code(), Code::kUnavailable);
        EXPECT_THAT(of_one.error().message(), HasSubstr("process " + std::to_string(crash.killed) +
                                                        " ended before arriving"));
      }
    }
    if (!saved.front()) {
      // The new one may be in place when somebody is killed; then the primary, if it lives, says
      // so.
      const std::string& message = saved.front().error().message();  // the primary's, if it lives
      const bool in_place = message.find("is in place") != std::string::npos;
      EXPECT_TRUE(found == (crash.replaces ? 1 : 0) ||
                  (found == 7 && (in_place || crash.killed == 0)))
          << found << ": " << message;
    }
    ++(saved.front() ? whole : told);
    Checkpointer().save(dir / "ckpt", {.item = Tree(Tree::Dict{{"n", Tree(std::int64_t{2})}})},
                        {.if_exists = IfExists::kReplace});
    EXPECT_EQ(number_at(dir / "ckpt"), 2);
    EXPECT_FALSE(file_exists(dir / "ckpt.orbax-checkpoint-tmp"));
  }
  EXPECT_EQ(ended, Ended::kWell);
  EXPECT_GT(told, 5);
  EXPECT_GE(whole, 1);
}

INSTANTIATE_TEST_SUITE_P(Processes, MultiprocessCrash,
                         ::testing::Values(Crash{"primary", 2, 0, true, false},
                                           Crash{"other", 2, 1, true, false},
                                           Crash{"primary, in files", 2, 0, false, true},
                                           Crash{"other, in files", 2, 1, false, true},
                                           Crash{"primary of four", 4, 0, true, true},
                                           Crash{"other of four", 4, 2, true, false},
                                           Crash{"primary of four, in files", 4, 0, false, false},
                                           Crash{"last of four, in files", 4, 3, false, true}));

}  // namespace
}  // namespace cairn
