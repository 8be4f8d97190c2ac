// Steps that several processes take together.
#include <cairn/distributed/process_group.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>

#include "tests/support/matchers.h"
#include "tests/support/processes.h"

namespace cairn::distributed {
namespace {

using testing::FailsWith;
using testing::run_as_processes;

// for who hangs, and not for who is slow on a busy machine
constexpr Coordinator::Timeout kShort = std::chrono::seconds(2);

ProcessGroup team_of(const std::shared_ptr<Coordinator>& job,
                     Coordinator::Timeout timeout = std::chrono::seconds(60)) {
  return ProcessGroup({.coordinator = job, .timeout = timeout, .write_timeout = timeout});
}

bool all_well(const std::vector<std::optional<Error>>& errors) {
  return std::none_of(errors.begin(), errors.end(),
                      [](const auto& error) { return error.has_value(); });
}

TEST(ProcessGroup, ASingleProcessNeedsNoCollective) {
  const ProcessGroup group({});
  EXPECT_TRUE(group.is_single());
  EXPECT_TRUE(group.is_primary());
  const auto said = group.gather("step", StepKind::kControl, [] { return Bytes(3); });
  EXPECT_EQ(said, std::vector<Bytes>{Bytes(3)});
  EXPECT_THAT([&] { group.step("step", StepKind::kControl, [] { throw Error(Code::kIo, "no"); }); },
              FailsWith(Code::kIo, "no"));
}

TEST(ProcessGroup, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THAT([] { ProcessGroup({.primary_host = 1}); },
              FailsWith(Code::kInvalidArgument, "process 1 cannot be primary in a job of 1"));
  EXPECT_THAT([] { ProcessGroup({.timeout = Coordinator::Timeout(0)}); },
              FailsWith(Code::kInvalidArgument, "the timeout of collectives is 0 ms"));
}

// They would disagree about who does the work that is done once, and about later steps.
TEST(ProcessGroup, DifferentPrimariesAreRefusedInTheFirstStep) {
  const auto errors = run_as_processes(3, [](const auto& job) {
    MultiprocessingOptions options{.coordinator = job};
    if (job->process_index() == 1) options.primary_host = std::nullopt;
    if (job->process_index() == 2) options.primary_host = 2;
    const ProcessGroup group(options);
    EXPECT_THAT(
        [&] { group.step("step", StepKind::kControl, [] {}); },
        FailsWith(Code::kInvalidArgument, "primary_host: process 1 has none, process 0 has 0"));
  });
  EXPECT_TRUE(all_well(errors));
}

TEST(ProcessGroup, AStepIsOverWhenAllAreThrough) {
  std::atomic<std::size_t> through = 0;
  const auto errors = run_as_processes(5, [&](const auto& job) {
    const ProcessGroup group = team_of(job);
    for (std::size_t round = 1; round <= 50; ++round) {
      const auto said = group.gather("step", StepKind::kControl, [&] {
        ++through;
        return Bytes(group.index());
      });
      ASSERT_EQ(said.size(), 5U);
      for (std::size_t p = 0; p < 5; ++p) EXPECT_EQ(said[p].size(), p);
      EXPECT_GE(through.load(), 5 * round);
      group.step("between", StepKind::kIo, [] {});
    }
  });
  EXPECT_TRUE(all_well(errors));
}

TEST(ProcessGroup, AFailureInOneFailsAll) {
  const auto errors = run_as_processes(4, [](const auto& job) {
    const ProcessGroup group = team_of(job);
    const auto fail = [&] {
      if (group.index() == 2) throw Error(Code::kDataLoss, "a: is damaged");
    };
    EXPECT_THAT([&] { group.step("step", StepKind::kControl, fail); },
                FailsWith(Code::kDataLoss,
                          group.index() == 2 ? "a: is damaged" : "process 2: a: is damaged"));
    // And they can go on.
    group.step("step", StepKind::kControl, [] {});
  });
  EXPECT_TRUE(all_well(errors));
}

TEST(ProcessGroup, OtherExceptionsAreTold) {
  const auto errors = run_as_processes(2, [](const auto& job) {
    const ProcessGroup group = team_of(job);
    const auto fail = [&] {
      if (group.index() == 1) throw std::runtime_error("of the device");
    };
    if (group.index() == 1)
      EXPECT_THROW(group.step("step", StepKind::kControl, fail), std::runtime_error);
    else
      EXPECT_THAT([&] { group.step("step", StepKind::kControl, fail); },
                  FailsWith(Code::kUnavailable, "process 1: of the device"));
  });
  EXPECT_TRUE(all_well(errors));
}

TEST(ProcessGroup, NamesAGoneProcessAtOnce) {
  const auto errors = run_as_processes(3, [](const auto& job) {
    if (job->process_index() == 1) return;
    team_of(job).step("step", StepKind::kIo, [] {});
  });
  EXPECT_FALSE(errors[1]);
  for (const std::size_t p : {0U, 2U}) {
    ASSERT_TRUE(errors[p]);
    EXPECT_EQ(errors[p]->code(), Code::kUnavailable);
    EXPECT_NE(errors[p]->message().find("process 1 ended before arriving"), std::string::npos)
        << errors[p]->message();
  }
}

TEST(ProcessGroup, NamesAHungProcessAfterTheTimeout) {
  std::atomic<int> given_up = 0;
  const auto errors = run_as_processes(3, [&](const auto& job) {
    const ProcessGroup group = team_of(job, kShort);
    const auto hang = [&] {
      while (group.index() == 1 && given_up.load() < 2) std::this_thread::yield();
    };
    try {
      group.step("step", StepKind::kIo, hang);
    } catch (const Error&) {
      ++given_up;
      throw;
    }
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kUnavailable);
    EXPECT_NE(error->message().find("process 1 did not arrive"), std::string::npos)
        << error->message();
  }
}

TEST(ProcessGroup, OnesOwnErrorSaysMoreThanThatOthersAreGone) {
  const auto errors = run_as_processes(2, [](const auto& job) {
    if (job->process_index() == 1) return;
    team_of(job).step("step", StepKind::kControl,
                      [] { throw Error(Code::kIo, "the disk is full"); });
  });
  ASSERT_TRUE(errors[0]);
  EXPECT_EQ(errors[0]->message(), "the disk is full");
}

TEST(ProcessGroup, StepsOfSeveralProcessesAreReported) {
  std::vector<std::string> told;
  const auto note = [&](const Event& event) {
    EXPECT_EQ(event.level, EventLevel::kDebug);
    EXPECT_GT(event.duration, std::chrono::nanoseconds(0));
    told.push_back(std::string(event.name) + " " +
                   std::string(std::get<std::string_view>(event.attributes[0].value)));
  };
  const auto errors = run_as_processes(2, [&](const auto& job) {
    const ProcessGroup group({.coordinator = job, .barrier_sync_key_prefix = "a"},
                             job->process_index() == 0 ? Observer(note) : Observer());
    group.step("first", StepKind::kControl, [] {});
    (void)group.gather("second", StepKind::kIo, [] { return Bytes(1); });
  });
  EXPECT_TRUE(all_well(errors));
  EXPECT_THAT(told, ::testing::ElementsAre("processes.met first", "processes.met second"));
  ProcessGroup({}, note).step("alone", StepKind::kControl, [] {});
  EXPECT_EQ(told.size(), 2U);
}

TEST(ProcessGroup, PrefixesKeepTeamsApart) {
  const auto errors = run_as_processes(2, [](const auto& job) {
    const ProcessGroup a({.coordinator = job, .barrier_sync_key_prefix = "a."});
    const ProcessGroup b({.coordinator = job, .barrier_sync_key_prefix = "b."});
    std::thread other([&] {
      for (int i = 0; i < 50; ++i) a.step("step", StepKind::kControl, [] {});
    });
    for (int i = 0; i < 50; ++i) {
      const auto said = b.gather("step", StepKind::kControl, [] { return Bytes(1); });
      EXPECT_EQ(said[0].size() + said[1].size(), 2U);
    }
    other.join();
  });
  EXPECT_TRUE(all_well(errors));
}

}  // namespace
}  // namespace cairn::distributed
