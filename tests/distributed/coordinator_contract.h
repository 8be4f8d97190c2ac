// coordinator_contract.h -- what every coordinator does, whatever carries it. Each part runs in all
// processes of a job at once.
#pragma once

#include <cairn/distributed.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/matchers.h"

namespace cairn::testing {

constexpr Coordinator::Timeout kLong = std::chrono::seconds(60);
constexpr Coordinator::Timeout kShort = std::chrono::milliseconds(20);

inline Bytes bytes_of(std::string_view text) {
  return {as_bytes(text).begin(), as_bytes(text).end()};
}
inline std::string text_of(const Bytes& bytes) { return std::string(as_text(bytes)); }

struct ContractPart {
  std::string name;
  void (*run)(Coordinator& job);
};
inline void PrintTo(const ContractPart& part, std::ostream* out) { *out << part.name; }

// The clock is one for all processes of a host: everybody came before anybody left.
inline void nobody_passes_a_barrier_before_all_have_come(Coordinator& job) {
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  for (int round = 0; round < 20; ++round) {
    std::array<std::int64_t, 2> came_and_left = {now(), 0};
    job.barrier("round", kLong);
    came_and_left[1] = now();
    const ByteView mine(reinterpret_cast<const std::byte*>(came_and_left.data()),
                        sizeof(came_and_left));
    std::int64_t last_came = came_and_left[0];
    std::int64_t first_left = came_and_left[1];
    for (const Bytes& value : job.all_gather("times", mine, kLong)) {
      std::array<std::int64_t, 2> times{};
      ASSERT_EQ(value.size(), sizeof(times));
      std::memcpy(times.data(), value.data(), sizeof(times));
      last_came = std::max(last_came, times[0]);
      first_left = std::min(first_left, times[1]);
    }
    EXPECT_LE(last_came, first_left);
  }
}

inline void gathers_in_the_order_of_processes(Coordinator& job) {
  for (int round = 0; round < 20; ++round) {
    // Values of all lengths, of none too.
    const auto value = [&](std::size_t p) {
      return std::string((round * p) % 7, static_cast<char>('a' + p)) +
             std::string(p % 2 * 300, '\0');
    };
    const std::vector<Bytes> all =
        job.all_gather("gather", as_bytes(value(job.process_index())), kLong);
    ASSERT_EQ(all.size(), job.process_count());
    for (std::size_t p = 0; p < all.size(); ++p) EXPECT_EQ(text_of(all[p]), value(p));
  }
}

inline void broadcasts_what_the_root_gave(Coordinator& job) {
  for (std::size_t root = 0; root < job.process_count(); ++root) {
    const std::string mine = "from " + std::to_string(job.process_index());
    EXPECT_EQ(text_of(job.broadcast("cast", as_bytes(mine), root, kLong)),
              "from " + std::to_string(root));
  }
  const Bytes large(3 << 20, std::byte{7});
  EXPECT_EQ(
      job.broadcast("large", job.process_index() == 0 ? ByteView(large) : ByteView(), 0, kLong),
      large);
  EXPECT_THAT([&] { job.broadcast("cast", {}, job.process_count(), kLong); },
              FailsWith(Code::kInvalidArgument, "cannot broadcast"));
}

// Each gives to the next one and to the one after that, values of which the others see nothing.
inline void delivers_to_those_who_want_it(Coordinator& job) {
  const std::size_t n = job.process_count(), me = job.process_index();
  const auto value = [](std::size_t p, int round) {
    return std::string(std::size_t{1} << (round % 2 * 18 + p), static_cast<char>('a' + p));
  };
  for (int round = 0; round < 4; ++round) {
    std::vector<std::size_t> to, from;
    for (std::size_t p = 0; p < n; ++p) {
      if (p != me && (p + n - me) % n <= 2) to.push_back(p);
      if (p != me && (me + n - p) % n <= 2) from.push_back(p);
    }
    const std::vector<Bytes> came =
        job.exchange("deliver", as_bytes(value(me, round)), {to, from}, kLong);
    ASSERT_EQ(came.size(), from.size());
    for (std::size_t i = 0; i < came.size(); ++i)
      EXPECT_TRUE(text_of(came[i]) == value(from[i], round)) << "from " << from[i];
  }
  EXPECT_TRUE(job.exchange("deliver", {}, {}, kLong).empty());
  for (const std::size_t other : {me, n})
    for (const bool gives : {true, false}) {
      const std::span<const std::size_t> nobody, wrong(&other, 1);
      EXPECT_THAT(
          [&] {
            job.exchange("deliver", {}, {gives ? wrong : nobody, gives ? nobody : wrong}, kLong);
          },
          FailsWith(Code::kInvalidArgument, "cannot exchange data with process"));
    }
  EXPECT_GE(job.max_value_bytes(), 1U << 20U);
}

inline void names_are_met_independently(Coordinator& job) {
  std::thread background([&] {
    for (int i = 0; i < 30; ++i) job.barrier("background", kLong);
  });
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(job.all_gather("main", as_bytes("x"), kLong).size(), job.process_count());
  background.join();
}

inline void any_text_is_a_name(Coordinator& job) {
  const std::string zero("a\0b", 3);
  for (const std::string& name : {std::string(), std::string("/"), std::string("../x"),
                                  std::string(5000, 'n'), std::string("\xff\n"), zero}) {
    job.barrier(name, kLong);
    EXPECT_EQ(text_of(job.broadcast(name, as_bytes(name), job.process_count() - 1, kLong)), name);
  }
}

// A collective that fails for one fails for all, and the name can be used again.
inline void who_comes_too_late_fails_too(Coordinator& job) {
  if (job.process_count() == 1) return;
  const std::size_t last = job.process_count() - 1;
  // so that those who give up come together, however busy the machine is
  job.barrier("all are here", kLong);
  if (job.process_index() == last) {
    job.barrier("others have given up", kLong);
    EXPECT_THAT([&] { job.barrier("late", kLong); },
                FailsWith(Code::kUnavailable, "did not arrive before process"));
  } else {
    EXPECT_THAT([&] { job.barrier("late", std::chrono::seconds(2)); },
                FailsWith(Code::kUnavailable, "'late': process " + std::to_string(last) +
                                                  " did not arrive before process"));
    job.barrier("others have given up", kLong);
  }
  EXPECT_EQ(job.all_gather("late", as_bytes("x"), kLong).size(), job.process_count());
}

// Whether the others are there already or come later, and whatever kind of collective it is.
inline void who_breaks_off_fails_all_at_once(Coordinator& job) {
  const std::size_t last = job.process_count() - 1, me = job.process_index();
  const std::string said = "process " + std::to_string(last) + " aborted: out of luck";
  for (int round = 0; round < 4; ++round) {
    if (round % 2 == 0) job.barrier("begin", kLong);
    if (me == last)
      job.abort("b", "out of luck");
    else if (round < 2)
      EXPECT_THAT([&] { job.barrier("b", kLong); }, FailsWith(Code::kUnavailable, "'b': " + said));
    else
      EXPECT_THAT([&] { job.exchange("b", bytes_of("x"), {}, kLong); },
                  FailsWith(Code::kUnavailable, "'b': " + said));
    if (round % 2 == 1) job.barrier("begin", kLong);
  }
  EXPECT_EQ(job.all_gather("b", as_bytes("x"), kLong).size(), job.process_count());
}

// Many words are no reason to say nothing.
inline void who_breaks_off_may_have_much_to_say(Coordinator& job) {
  if (job.process_index() == 0) job.abort("b", std::string(100000, 'x'));
  if (job.process_index() != 0) {
    EXPECT_THAT([&] { job.barrier("b", kLong); },
                FailsWith(Code::kUnavailable, "'b': process 0 aborted: " + std::string(1000, 'x')));
  }
  job.barrier("b", kLong);
}

inline std::vector<ContractPart> coordinator_contract() {
  return {{"NobodyPassesABarrierBeforeAllHaveCome", nobody_passes_a_barrier_before_all_have_come},
          {"GathersInTheOrderOfProcesses", gathers_in_the_order_of_processes},
          {"BroadcastsWhatTheRootGave", broadcasts_what_the_root_gave},
          {"DeliversToThoseWhoWantIt", delivers_to_those_who_want_it},
          {"NamesAreMetIndependently", names_are_met_independently},
          {"AnyTextIsAName", any_text_is_a_name},
          {"LateProcessesFailToo", who_comes_too_late_fails_too},
          {"WhoBreaksOffFailsAllAtOnce", who_breaks_off_fails_all_at_once},
          {"WhoBreaksOffMayHaveMuchToSay", who_breaks_off_may_have_much_to_say}};
}

}  // namespace cairn::testing
