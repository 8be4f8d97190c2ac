// Steps that several processes take together.
#include <cairn/distributed/team.h>

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

constexpr Coordinator::Timeout kShort = std::chrono::seconds(2);  // for who hangs, and not for who is slow on a busy machine

Team team_of(const std::shared_ptr<Coordinator>& job, Coordinator::Timeout timeout = std::chrono::seconds(60)) {
  return Team({.coordinator = job, .timeout = timeout, .write_timeout = timeout});
}

bool all_well(const std::vector<std::optional<Error>>& errors) {
  return std::none_of(errors.begin(), errors.end(), [](const auto& error) { return error.has_value(); });
}

TEST(Team, WhoIsAloneMeetsNobody) {
  const Team team({});
  EXPECT_TRUE(team.alone());
  EXPECT_TRUE(team.is_primary());
  const auto said = team.exchange("step", Before::kShortWork, [] { return Bytes(3); });
  EXPECT_EQ(said, std::vector<Bytes>{Bytes(3)});
  EXPECT_THAT([&] { team.step("step", Before::kShortWork, [] { throw Error(Code::kIo, "no"); }); }, FailsWith(Code::kIo, "no"));
}

TEST(Team, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THAT([] { Team({.primary_host = 1}); }, FailsWith(Code::kInvalidArgument, "process 1 cannot be primary in a job of 1"));
  EXPECT_THAT([] { Team({.timeout = Coordinator::Timeout(0)}); }, FailsWith(Code::kInvalidArgument, "a time-out of 0 ms"));
}

TEST(Team, AStepIsOverWhenAllAreThrough) {
  std::atomic<std::size_t> through = 0;
  const auto errors = run_as_processes(5, [&](const auto& job) {
    const Team team = team_of(job);
    for (std::size_t round = 1; round <= 50; ++round) {
      const auto said = team.exchange("step", Before::kShortWork, [&] {
        ++through;
        return Bytes(team.index());
      });
      ASSERT_EQ(said.size(), 5U);
      for (std::size_t p = 0; p < 5; ++p) EXPECT_EQ(said[p].size(), p);
      EXPECT_GE(through.load(), 5 * round);
      team.step("between", Before::kReadingOrWriting, [] {});
    }
  });
  EXPECT_TRUE(all_well(errors));
}

TEST(Team, WhatFailsInOneFailsInAll) {
  const auto errors = run_as_processes(4, [](const auto& job) {
    const Team team = team_of(job);
    const auto fail = [&] {
      if (team.index() == 2) throw Error(Code::kDataLoss, "a: is damaged");
    };
    EXPECT_THAT([&] { team.step("step", Before::kShortWork, fail); },
                FailsWith(Code::kDataLoss, team.index() == 2 ? "a: is damaged" : "process 2: a: is damaged"));
    // And they can go on.
    team.step("step", Before::kShortWork, [] {});
  });
  EXPECT_TRUE(all_well(errors));
}

TEST(Team, OtherExceptionsAreTold) {
  const auto errors = run_as_processes(2, [](const auto& job) {
    const Team team = team_of(job);
    const auto fail = [&] {
      if (team.index() == 1) throw std::runtime_error("of the device");
    };
    if (team.index() == 1)
      EXPECT_THROW(team.step("step", Before::kShortWork, fail), std::runtime_error);
    else
      EXPECT_THAT([&] { team.step("step", Before::kShortWork, fail); }, FailsWith(Code::kUnavailable, "process 1: of the device"));
  });
  EXPECT_TRUE(all_well(errors));
}

TEST(Team, WhoIsGoneIsNamedAtOnce) {
  const auto errors = run_as_processes(3, [](const auto& job) {
    if (job->process_index() == 1) return;
    team_of(job).step("step", Before::kReadingOrWriting, [] {});
  });
  EXPECT_FALSE(errors[1]);
  for (const std::size_t p : {0U, 2U}) {
    ASSERT_TRUE(errors[p]);
    EXPECT_EQ(errors[p]->code(), Code::kUnavailable);
    EXPECT_NE(errors[p]->message().find("process 1 ended without coming"), std::string::npos) << errors[p]->message();
  }
}

TEST(Team, WhoHangsIsNamedWhenTheTimeIsOverAndLearnsItLater) {
  std::atomic<int> given_up = 0;
  const auto errors = run_as_processes(3, [&](const auto& job) {
    const Team team = team_of(job, kShort);
    const auto hang = [&] {
      while (team.index() == 1 && given_up.load() < 2) std::this_thread::yield();
    };
    try {
      team.step("step", Before::kReadingOrWriting, hang);
    } catch (const Error&) {
      ++given_up;
      throw;
    }
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kUnavailable);
    EXPECT_NE(error->message().find("process 1 did not come"), std::string::npos) << error->message();
  }
}

TEST(Team, OnesOwnErrorSaysMoreThanThatOthersAreGone) {
  const auto errors = run_as_processes(2, [](const auto& job) {
    if (job->process_index() == 1) return;
    team_of(job).step("step", Before::kShortWork, [] { throw Error(Code::kIo, "the disk is full"); });
  });
  ASSERT_TRUE(errors[0]);
  EXPECT_EQ(errors[0]->message(), "the disk is full");
}

TEST(Team, PrefixesKeepTeamsApart) {
  const auto errors = run_as_processes(2, [](const auto& job) {
    const Team a({.coordinator = job, .barrier_sync_key_prefix = "a."});
    const Team b({.coordinator = job, .barrier_sync_key_prefix = "b."});
    std::thread other([&] {
      for (int i = 0; i < 50; ++i) a.step("step", Before::kShortWork, [] {});
    });
    for (int i = 0; i < 50; ++i) {
      const auto said = b.exchange("step", Before::kShortWork, [] { return Bytes(1); });
      EXPECT_EQ(said[0].size() + said[1].size(), 2U);
    }
    other.join();
  });
  EXPECT_TRUE(all_well(errors));
}

}  // namespace
}  // namespace cairn::distributed
