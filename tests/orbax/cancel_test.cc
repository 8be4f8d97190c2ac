// cancel_test.cc -- a request to stop a running save, and its time limit: it ends soon, and leaves
// the older checkpoints and no new one.
#include <cairn/checkpoint_manager.h>
#include <cairn/io/file.h>
#include <cairn/open.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/layout/layout.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::TempDir;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Much longer than a save needs to end, also on a busy machine, and less than it would take.
constexpr auto kSoon = std::chrono::seconds(20);

// Bytes that zstd finds hard.
Array noise(std::int64_t bytes) {
  Array array = Array::allocate(DType::kUint64, {bytes / 8});
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): the same every time
  for (std::uint64_t& value : array.mutable_as<std::uint64_t>())
    value = random() & 0x3f3f3f3f3f3f3f3fU;
  return array;
}

// One chunk, which takes minutes to compress.
const Tree& large() {
  static const Tree tree{{"a", noise(std::int64_t{128} << 20U)}};
  return tree;
}

// Asks to stop from another thread, some time after it has begun.
class StopLater {
 public:
  explicit StopLater(milliseconds after)
      : thread_([this, after] {
          std::this_thread::sleep_for(after);
          asked_ = steady_clock::now();
          source_.request_stop();
        }) {}
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }
  // The time since the request.
  [[nodiscard]] auto since() {
    thread_.join();
    return steady_clock::now() - asked_;
  }

 private:
  std::stop_source source_;
  steady_clock::time_point asked_;
  std::jthread thread_;
};

class Cancel : public ::testing::TestWithParam<CommitProtocol> {};
INSTANTIATE_TEST_SUITE_P(Protocols, Cancel,
                         ::testing::Values(CommitProtocol::kAtomicRename,
                                           CommitProtocol::kCommitMarker),
                         [](const auto& protocol) {
                           return protocol.param == CommitProtocol::kAtomicRename ? "AtomicRename"
                                                                                  : "CommitMarker";
                         });

TEST_P(Cancel, InTheMiddleOfAChunk) {
  const TempDir dir = TempDir::in_memory();
  (void)large();
  for (const std::size_t threads : {1, 2}) {
    StopLater stop(milliseconds(200));
    SaveOptions options;
    options.commit_protocol = GetParam();
    options.compression = Compression::zstd(19);
    options.resources.threads = threads;
    options.cancel = stop.token();
    EXPECT_THAT([&] { save(dir / "ckpt", large(), options); }, FailsWith(Code::kCancelled, "stop"));
    EXPECT_LT(stop.since(), kSoon) << threads;
    EXPECT_THAT(list_directory(dir.path()).folders, IsEmpty());
    EXPECT_THAT(list_directory(dir.path()).files, IsEmpty());
  }
}

// The request comes when everything is written, and just not committed.
TEST_P(Cancel, BeforeTheCommit) {
  const TempDir dir = TempDir::in_memory();
  PyTreeCheckpointHandlerOptions handler;
  handler.commit_protocol = GetParam();
  Checkpointer checkpointer(handler);
  std::stop_source source;
  const CheckpointItems items{
      {"a", PyTreeSaveArgs{Tree{{"x", 2}}}},
      {"b", FilesItem{.handler = "my.Handler",
                      .write = [&](const std::string&) { source.request_stop(); }}}};
  EXPECT_THAT([&] { checkpointer.save_items(dir / "ckpt", items, {.cancel = source.get_token()}); },
              FailsWith(Code::kCancelled, "stop"));
  EXPECT_THAT(list_directory(dir.path()).folders, IsEmpty());
  checkpointer.save_items(dir / "ckpt", items);
  const RestoredItems restored = checkpointer.restore_items(dir / "ckpt", {{"a", {}}});
  EXPECT_EQ(std::get<Tree>(restored.at("a")), (Tree{{"x", 2}}));
}

TEST_P(Cancel, ARequestBeforeTheSave) {
  const TempDir dir = TempDir::in_memory();
  std::stop_source source;
  source.request_stop();
  SaveOptions options;
  options.commit_protocol = GetParam();
  options.cancel = source.get_token();
  EXPECT_THAT(
      [&] {
        save(dir / "ckpt", Tree{{"x", 1}}, options);
      },
      FailsWith(Code::kCancelled, "stop"));
  EXPECT_FALSE(file_exists(dir / "ckpt"));
}

TEST_P(Cancel, ASaveInTheBackground) {
  const TempDir dir = TempDir::in_memory();
  PyTreeCheckpointHandlerOptions handler;
  handler.commit_protocol = GetParam();
  handler.compression = Compression::zstd(19);
  AsyncCheckpointer checkpointer(handler);
  const PyTreeSaveArgs args{large()};
  StopLater stop(milliseconds(1000));
  const auto save_and_wait = [&] {  // the copy may take longer than usual
    checkpointer.save(dir / "ckpt", args, {.cancel = stop.token()});
    checkpointer.wait_until_finished();
  };
  EXPECT_THAT(save_and_wait, FailsWith(Code::kCancelled, "stop"));
  EXPECT_LT(stop.since(), kSoon);
  checkpointer.wait_until_finished();
  EXPECT_THAT(list_directory(dir.path()).folders, IsEmpty());
  checkpointer.save(dir / "ckpt", PyTreeSaveArgs{Tree{{"x", 1}}});
  checkpointer.wait_until_finished();
  EXPECT_EQ(load(dir / "ckpt"), (Tree{{"x", 1}}));
}

// The step that the save would have replaced stays.
TEST_P(Cancel, AStepOfAManager) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManagerOptions options{.max_to_keep = 1};
  options.handler.commit_protocol = GetParam();
  options.handler.compression = Compression::zstd(19);
  CheckpointManager manager(dir / "run", options);
  manager.save(1, PyTreeSaveArgs{Tree{{"x", 1}}});
  const PyTreeSaveArgs args{large()};
  StopLater stop(milliseconds(1000));
  const auto save_and_wait = [&] {
    manager.save(2, args, {.cancel = stop.token()});
    manager.wait_until_finished();
  };
  EXPECT_THAT(save_and_wait, FailsWith(Code::kCancelled, "stop"));
  EXPECT_LT(stop.since(), kSoon);
  EXPECT_THAT(manager.all_steps(), ElementsAre(1));
  EXPECT_EQ(manager.restore(), (Tree{{"x", 1}}));
  EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("1"));
  manager.save(2, PyTreeSaveArgs{Tree{{"x", 2}}});
  manager.wait_until_finished();
  EXPECT_THAT(manager.all_steps(), ElementsAre(2));
}

// The request reaches one process. All of them end, and the next save of all of them succeeds.
// covers: checkpointers.AsyncCheckpointer
// note: A `std::stop_token` stops a running save in all processes. Orbax drops only futures that
// have not started.
TEST_P(Cancel, OneOfSeveralProcesses) {
  for (const std::size_t asked : {0, 1}) {
    const TempDir dir = TempDir::in_memory();
    const auto errors =
        testing::run_as_processes(3, [&](const std::shared_ptr<Coordinator>& coordinator) {
          CheckpointManagerOptions options{.max_to_keep = 1};
          options.handler.commit_protocol = GetParam();
          options.handler.compression = Compression::zstd(19);
          options.handler.resources.threads = 1;
          options.handler.multiprocessing_options.coordinator = coordinator;
          CheckpointManager manager(dir / "run", options);
          manager.save(1, PyTreeSaveArgs{Tree{{"x", 1}}});
          manager.wait_until_finished();
          const bool is_asked = coordinator->process_index() == asked;
          // The primary alone writes the tree.
          const PyTreeSaveArgs args{asked == 0 ? large() : Tree{{"x", 2}}};
          StopLater stop(milliseconds(is_asked && asked == 0 ? 1000 : 0));
          // The small tree is saved in no time, so the request must come before.
          while (asked == 1 && !stop.token().stop_requested()) std::this_thread::yield();
          EXPECT_THAT(
              [&] {
                manager.save(2, args, {.cancel = is_asked ? stop.token() : std::stop_token()});
                manager.wait_until_finished();
              },
              FailsWith(Code::kCancelled, is_asked ? "stop" : "process " + std::to_string(asked)));
          EXPECT_LT(stop.since(), kSoon);
          EXPECT_THAT(manager.all_steps(), ElementsAre(1));
          manager.save(2, PyTreeSaveArgs{Tree{{"x", 2}}});
          manager.wait_until_finished();
          EXPECT_EQ(manager.restore(2), (Tree{{"x", 2}}));
        });
    for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
    EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("2"));
  }
}

// ---- time limits ----

TEST_P(Cancel, ASaveTakesTooLong) {
  const TempDir dir = TempDir::in_memory();
  (void)large();
  SaveOptions options;
  options.commit_protocol = GetParam();
  options.compression = Compression::zstd(19);
  options.save_timeout = milliseconds(250);
  const auto start = steady_clock::now();
  const auto late = try_call([&] { return save(dir / "ckpt", large(), options), true; });
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kDeadlineExceeded);
  EXPECT_THAT(late.error().message(), StartsWith(dir / "ckpt: the save took too long: a: chunk "));
  EXPECT_THAT(late.error().message(), EndsWith(": the time limit of 0.25 s is over"));
  EXPECT_LT(steady_clock::now() - start, kSoon);
  EXPECT_THAT(list_directory(dir.path()).folders, IsEmpty());
  EXPECT_THAT(list_directory(dir.path()).files, IsEmpty());
}

// Nobody waits for the save when its time is over.
// covers: manager.CheckpointManagerOptions.async_options
// note: `timeout_secs` is `save_timeout`: Cairn stops the save and removes it. Orbax stops
// waiting. The default is no limit.
TEST_P(Cancel, AStepOfAManagerTakesTooLong) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManagerOptions options{.max_to_keep = 1};
  options.handler.commit_protocol = GetParam();
  options.handler.compression = Compression::zstd(19);
  CheckpointManager(dir / "run", options).save(1, PyTreeSaveArgs{Tree{{"x", 1}}});
  options.handler.save_timeout = std::chrono::seconds(1);
  {
    CheckpointManager manager(dir / "run", options);
    const PyTreeSaveArgs args{large()};
    const auto save_and_look = [&] {  // the copy may take longer than usual
      manager.save(2, args);
      const auto start = steady_clock::now();
      while (manager.is_saving_in_progress() && steady_clock::now() - start < kSoon)
        std::this_thread::sleep_for(milliseconds(10));
      EXPECT_FALSE(manager.is_saving_in_progress());
      EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("1"));
      manager.check_for_errors();
    };
    EXPECT_THAT(save_and_look,
                FailsWith(Code::kDeadlineExceeded, dir / "run/2: the save took too long: "));
    EXPECT_THAT(manager.all_steps(), ElementsAre(1));
    EXPECT_EQ(manager.restore(), (Tree{{"x", 1}}));
  }
  EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("1"));
  options.handler.save_timeout = std::chrono::minutes(5);
  CheckpointManager manager(dir / "run", options);
  manager.save(2, PyTreeSaveArgs{Tree{{"x", 2}}});
  manager.wait_until_finished();
  EXPECT_THAT(manager.all_steps(), ElementsAre(2));
}

// A handler without a checkpointer: the write ends, and its files remain for the caller to remove.
TEST(Request, OfAHandlerAlone) {
  const TempDir dir = TempDir::in_memory();
  PyTreeCheckpointHandlerOptions options;
  options.compression = Compression::zstd(19);
  PyTreeCheckpointHandler handler(std::move(options));
  for (const bool background : {false, true}) {
    StopLater stop(milliseconds(200));
    PyTreeSaveArgs args{large()};
    args.cancel = stop.token();
    const auto save = [&] {
      if (!background) return handler.save(dir / "ckpt", args);
      for (const auto& future : handler.async_save(dir / "ckpt", args)) future.get();
    };
    EXPECT_THAT(save, FailsWith(Code::kCancelled, "stop"));
    EXPECT_LT(stop.since(), kSoon) << background;
  }
}

TEST(Request, OfTheHandlerIsRefusedByACheckpointer) {
  const TempDir dir = TempDir::in_memory();
  const std::stop_source stop;
  PyTreeSaveArgs args{Tree{{"x", 1}}};
  args.cancel = stop.get_token();
  EXPECT_THAT([&] { Checkpointer().save(dir / "ckpt", args); },
              FailsWith(Code::kInvalidArgument, "CheckpointerSaveOptions::cancel"));
  EXPECT_FALSE(std::filesystem::exists(dir / "ckpt"));
}

TEST(TimeLimit, OfAHandlerAlone) {
  const TempDir dir = TempDir::in_memory();
  PyTreeCheckpointHandlerOptions options{.compression = Compression::zstd(19)};
  options.save_timeout = std::chrono::seconds(1);
  PyTreeCheckpointHandler handler(options);
  const PyTreeSaveArgs args{large()};
  const auto start = steady_clock::now();
  const auto late = FailsWith(Code::kDeadlineExceeded, "the time limit of 1 s is over");
  EXPECT_THAT([&] { handler.async_save(dir / "a", args).front().get(); }, late);
  EXPECT_THAT([&] { handler.save(dir / "b", args); }, late);
  EXPECT_LT(steady_clock::now() - start, 2 * kSoon);
}

// One process is late. All of them end with its error.
TEST_P(Cancel, OneOfSeveralProcessesTakesTooLong) {
  const TempDir dir = TempDir::in_memory();
  const auto errors =
      testing::run_as_processes(2, [&](const std::shared_ptr<Coordinator>& coordinator) {
        const bool is_late = coordinator->process_index() == 0;  // the primary writes the tree
        CheckpointManagerOptions options;
        options.handler.commit_protocol = GetParam();
        options.handler.compression = Compression::zstd(19);
        options.handler.resources.threads = 1;
        options.handler.multiprocessing_options.coordinator = coordinator;
        if (is_late) options.handler.save_timeout = std::chrono::seconds(1);
        CheckpointManager manager(dir / "run", options);
        const PyTreeSaveArgs args{large()};
        const auto save_and_wait = [&] {
          manager.save(2, args);
          manager.wait_until_finished();
        };
        EXPECT_THAT(save_and_wait, FailsWith(Code::kDeadlineExceeded,
                                             is_late ? "run/2: the save took" : "process 0"));
        EXPECT_THAT(manager.all_steps(), IsEmpty());
      });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
}

// Its end is beyond what a clock can tell.
TEST(TimeLimit, TheLongestIsNotOverAtOnce) {
  const TempDir dir = TempDir::in_memory();
  save(dir / "ckpt", Tree{{"x", 1}}, {.save_timeout = milliseconds::max()});
  EXPECT_EQ(load(dir / "ckpt"), (Tree{{"x", 1}}));
}

TEST(TimeLimit, MustBePositive) {
  const TempDir dir = TempDir::in_memory();
  SaveOptions options;
  options.save_timeout = milliseconds(0);
  EXPECT_THAT(
      [&] {
        save(dir / "ckpt", Tree{{"x", 1}}, options);
      },
      FailsWith(Code::kInvalidArgument, "0 ms; it must be positive"));
  CheckpointManagerOptions run;
  run.handler.save_timeout = milliseconds(-1);
  EXPECT_THAT([&] { CheckpointManager manager(dir / "run", run); },
              FailsWith(Code::kInvalidArgument, "must be positive"));
  options.save_timeout = std::chrono::minutes(5);
  save(dir / "ckpt", Tree{{"x", 1}}, options);
  EXPECT_EQ(load(dir / "ckpt"), (Tree{{"x", 1}}));
}

}  // namespace
}  // namespace cairn::orbax
