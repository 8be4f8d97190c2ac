// Dealing out work: every part is one process's, and all have about the same.
#include <cairn/base/work_partition.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace cairn {
namespace {

struct Thing {
  std::uint64_t bytes, parts;
};

// The parts of each thing that each process has: [process][thing].
std::vector<std::vector<WorkPartition::Run>> deal(const std::vector<Thing>& things,
                                                  std::size_t processes) {
  std::uint64_t total = 0;
  for (const Thing& thing : things) total += WorkPartition::weight(thing.bytes);
  std::vector<std::vector<WorkPartition::Run>> out;
  for (std::size_t p = 0; p < processes; ++p) {
    WorkPartition line({p, processes}, total);
    auto& mine = out.emplace_back();
    for (const Thing& thing : things)
      mine.push_back(line.next(WorkPartition::weight(thing.bytes), thing.parts));
  }
  return out;
}

TEST(WorkPartition, GivesEveryPartToOneProcessInOrder) {
  const auto seed = testing::seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](std::uint64_t n) {
    return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<Thing> things(1 + below(20));
    for (Thing& thing : things)
      thing = {below(3) == 0 ? below(4) : below(1U << 20U), below(4) == 0 ? below(3) : below(1000)};
    const std::size_t processes = 1 + below(9);
    const auto dealt = deal(things, processes);
    for (std::size_t t = 0; t < things.size(); ++t) {
      std::uint64_t next = 0;
      for (std::size_t p = 0; p < processes; ++p) {
        const WorkPartition::Run run = dealt[p][t];
        if (run.empty()) continue;
        ASSERT_EQ(run.begin, next);
        next = run.end;
      }
      ASSERT_EQ(next, things[t].parts);
    }
    // What a process has lies behind what all before it have.
    std::size_t thing = 0;
    for (std::size_t p = 0; p < processes; ++p)
      for (std::size_t t = 0; t < things.size(); ++t) {
        if (dealt[p][t].empty()) continue;
        ASSERT_GE(t, thing);
        thing = t;
      }
  }
}

TEST(WorkPartition, GivesAllAboutTheSame) {
  // One large thing that can be cut, among small ones.
  const auto dealt = deal({{1000, 1}, {1'000'000, 1000}, {3000, 3}}, 4);
  for (const auto& mine : dealt) {
    std::uint64_t bytes = 0;
    const std::uint64_t each[] = {1000, 1000, 1000};
    for (std::size_t t = 0; t < mine.size(); ++t) bytes += (mine[t].end - mine[t].begin) * each[t];
    EXPECT_NEAR(static_cast<double>(bytes), 1'004'000 / 4.0, 2000);
  }
}

TEST(WorkPartition, ASingleProcessHasEverything) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  const auto dealt = deal(std::vector<Thing>(1000, {kMost, kMost}), 1);
  for (const WorkPartition::Run& run : dealt[0]) {
    EXPECT_EQ(run.begin, 0U);
    EXPECT_EQ(run.end, kMost);
  }
}

}  // namespace
}  // namespace cairn
