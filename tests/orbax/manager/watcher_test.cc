// watcher_test.cc -- waiting for steps, and the signal to end.
#include <cairn/checkpoint_manager.h>
#include <cairn/open.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::TempDir;
using std::chrono::milliseconds;

StepWatcherOptions quick() {
  StepWatcherOptions options;
  options.poll_interval = milliseconds(1);
  options.timeout = milliseconds(0);
  return options;
}

void make_step(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  save(path, Tree{{"x", 1}});
}

TEST(StepWatcher, ReturnsTheLatestStepOnce) {
  const TempDir dir = TempDir::in_memory();
  StepWatcher watcher(dir / "run", quick());
  EXPECT_EQ(watcher.next(), std::nullopt);  // the directory is missing
  make_step(dir / "run/3");
  make_step(dir / "run/12");
  std::filesystem::create_directory(dir / "run/13.orbax-checkpoint-tmp");
  std::filesystem::create_directory(dir / "run/14");  // no checkpoint
  make_step(dir / "run/notes");
  EXPECT_EQ(watcher.next(), 12);
  EXPECT_EQ(watcher.next(), std::nullopt);
  make_step(dir / "run/7");
  EXPECT_EQ(watcher.next(), std::nullopt);
  make_step(dir / "run/13");
  EXPECT_EQ(watcher.next(), 13);
  // Half of a copy does not count; the rest of it does.
  make_step(dir / "copy");
  std::filesystem::copy(dir / "copy", dir / "run/15");
  EXPECT_EQ(watcher.next(), std::nullopt);
  std::filesystem::copy(dir / "copy/d", dir / "run/15/d");
  EXPECT_EQ(watcher.next(), 15);
}

// covers: manager.wait_for_new_checkpoint
TEST(StepWatcher, WaitsForAnotherProcess) {
  const TempDir dir = TempDir::in_memory();
  StepWatcherOptions options = quick();
  options.timeout.reset();
  options.first_step = 2;
  options.step_name_format = StepNameFormat("step", 4);
  StepWatcher watcher(dir / "run", options);
  make_step(dir / "run/step_0001");
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    make_step(dir / "run/step_0002");
  });
  EXPECT_EQ(watcher.next(), 2);
  other.join();
}

// The end of such a time is beyond what a clock can tell.
TEST(StepWatcher, TheLongestTimeoutIsNotOverAtOnce) {
  const TempDir dir = TempDir::in_memory();
  StepWatcherOptions options = quick();
  options.timeout = std::chrono::nanoseconds::max();
  int asked = 0;
  options.gives_up = [&] { return ++asked > 0; };
  StepWatcher watcher(dir / "run", options);
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    make_step(dir / "run/1");
  });
  EXPECT_EQ(watcher.next(), 1);
  other.join();
  EXPECT_EQ(asked, 0);
}

TEST(StepWatcher, AsksWhetherToGiveUp) {
  const TempDir dir = TempDir::in_memory();
  int asked = 0;
  StepWatcherOptions options = quick();
  options.gives_up = [&] { return ++asked == 3; };
  StepWatcher watcher(dir / "run", options);
  EXPECT_EQ(watcher.next(), std::nullopt);
  EXPECT_EQ(asked, 3);
}

TEST(StepWatcher, KeepsTheMinimumInterval) {
  const TempDir dir = TempDir::in_memory();
  StepWatcherOptions options = quick();
  options.min_interval = milliseconds(50);
  StepWatcher watcher(dir / "run", options);
  make_step(dir / "run/1");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(watcher.next(), 1);
  make_step(dir / "run/2");
  EXPECT_EQ(watcher.next(), 2);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(50));
}

TEST(StepWatcher, RefusesIntervalsThatMakeNoSense) {
  const auto refuses = [](auto change) {
    StepWatcherOptions options;
    change(options);
    EXPECT_THAT([&] { StepWatcher("x", options); }, FailsWith(Code::kInvalidArgument, "must"));
  };
  refuses([](StepWatcherOptions& options) { options.poll_interval = milliseconds(0); });
  refuses([](StepWatcherOptions& options) { options.min_interval = milliseconds(-1); });
  refuses([](StepWatcherOptions& options) { options.timeout = milliseconds(-1); });
}

TEST(TerminationSignal, TheNextStepIsSaved) {
  const TempDir dir = TempDir::in_memory();
  const TerminationSignal signal(SIGUSR1);
  CheckpointManagerOptions options;
  options.save_interval_steps = 100;
  options.is_preempted = signal.preemption_check();
  CheckpointManager manager(dir / "run", options);
  const auto save = [&](std::int64_t step) {
    return manager.save(step, PyTreeSaveArgs{Tree{{"x", step}}});
  };
  EXPECT_TRUE(save(0));
  EXPECT_FALSE(save(1));
  EXPECT_FALSE(signal.received());
  raise(SIGUSR1);
  EXPECT_TRUE(signal.received());
  EXPECT_TRUE(save(2));
  manager.close();
}

// A run whose signal arrives at step 5 at one of three places: before save(), while save() decides,
// or after it.
struct SignalledRun {
  explicit SignalledRun(int at) : place(at) {
    CheckpointManagerOptions options;
    options.save_policy =
        save_policy::any_of({save_policy::preemption(), [this](const SaveQuestion& question) {
                               arrive(1, question.step);
                               return false;
                             }});
    options.is_preempted = signal.preemption_check();
    manager.emplace(dir / "run", options);
  }
  void arrive(int here, std::int64_t step) const {
    if (here == place && step == 5) raise(SIGUSR1);
  }
  // Ends the run, which must have saved once, at the place or with the next step.
  void end() {
    manager->close();
    EXPECT_EQ(manager->latest_step(), place == 0 ? 5 : 6);
    EXPECT_EQ(manager->all_steps().size(), 1U);
  }

  const int place;
  const TempDir dir = TempDir::in_memory();
  const TerminationSignal signal{SIGUSR1};
  std::optional<CheckpointManager> manager;
};

// A program that asks the signal itself must do so before save(): the signal saves a step wherever
// it arrives, before the step is decided on, in between, or after save() has declined.
// covers: manager.CheckpointManagerOptions.save_decision_policy
// note: `should_save_fn` is a policy, too: `any_of({preemption(), your_function})` asks both.
TEST(TerminationSignal, NoPlaceInTheLoopLosesIt) {
  for (const int place : {0, 1, 2}) {
    SignalledRun run(place);
    for (std::int64_t step = 0; step < 100; ++step) {
      run.arrive(0, step);
      const bool last = run.signal.received();
      run.manager->save(step, PyTreeSaveArgs{Tree{{"x", step}}});
      if (last) break;
      run.arrive(2, step);
    }
    run.end();
  }
}

// The loop of the documentation asks the manager, after save().
// covers: manager.CheckpointManager.reached_preemption
// note: The processes tell each other in `save()`, so the answer is that of the last save. Orbax
// asks JAX with a step.
TEST(TerminationSignal, TheManagerKnowsOfIt) {
  for (const int place : {0, 1, 2}) {
    SignalledRun run(place);
    for (std::int64_t step = 0; step < 100 && !run.manager->reached_preemption(); ++step) {
      run.arrive(0, step);
      const bool is_saved = run.manager->save(step, PyTreeSaveArgs{Tree{{"x", step}}});
      ASSERT_EQ(is_saved, run.manager->reached_preemption());
      run.arrive(2, step);
    }
    run.end();
  }
}

// It is said also where the step is not saved, because the policy decides alone, or is saved
// anyway.
TEST(TerminationSignal, TheManagerKnowsOfItWhateverItSaves) {
  const TempDir dir = TempDir::in_memory();
  for (const bool force : {false, true}) {
    CheckpointManagerOptions options;
    options.save_policy = save_policy::specific_steps({});
    options.is_preempted = [](std::int64_t step) { return step == 3; };
    CheckpointManager manager(dir / (force ? "forced" : "run"), options);
    EXPECT_FALSE(manager.should_save(3));
    EXPECT_FALSE(manager.reached_preemption());
    for (const std::int64_t step : {2, 3, 4}) {
      EXPECT_EQ(manager.save(step, PyTreeSaveArgs{Tree{{"x", step}}}, {.force = force}), force);
      EXPECT_EQ(manager.reached_preemption(), step >= 3);
    }
    manager.close();
  }
}

TEST(TerminationSignal, GivesTheSignalBack) {
  static int handled = 0;
  std::signal(SIGUSR1, [](int) { ++handled; });
  {
    const TerminationSignal signal(SIGUSR1);
    EXPECT_THAT([] { TerminationSignal another(SIGUSR1); },
                FailsWith(Code::kFailedPrecondition, "another"));
    raise(SIGUSR1);
    EXPECT_TRUE(signal.received());
  }
  EXPECT_EQ(handled, 0);
  raise(SIGUSR1);
  EXPECT_EQ(handled, 1);
  const TerminationSignal again(SIGUSR1);
  EXPECT_FALSE(again.received());
  for (const int signal : {SIGKILL, 0, 1000})
    EXPECT_THAT([&] { TerminationSignal one(signal); },
                FailsWith(Code::kInvalidArgument, "cannot be caught"));
}

}  // namespace
}  // namespace cairn::orbax
