// Replicas along an axis of a mesh: who reads, who gives what to whom, and which arrays go
// together.
#include <cairn/handlers/single_replica/replicas.h>
#include <gmock/gmock.h>

#include <random>

#include "tests/support/matchers.h"

namespace cairn::handlers {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::Pair;

TEST(Replicas, ThoseOfThePrimaryReadAndTakeTurnsInGiving) {
  // Replica 1 lies in processes 1 and 2, of which 2 holds half of replica 0, too.
  Replicas replicas(make_mesh({2, 4}, {"r", "m"}), {.axis = -2, .primary = -1});
  const std::vector<std::int64_t> devices[] = {{0, 1}, {4, 5}, {2, 3, 6, 7}};
  replicas.set_owners(devices);
  EXPECT_FALSE(replicas.reads(0));
  EXPECT_TRUE(replicas.reads(1));
  EXPECT_TRUE(replicas.reads(2));
  EXPECT_FALSE(replicas.reads(3));

  const auto text = [](const std::vector<Replicas::Route>& routes) {
    std::string out;
    for (const auto& [box, from, to] : routes) {
      out += "box " + std::to_string(box) + " " + std::to_string(from) + " ->";
      for (const std::size_t p : to) out += " " + std::to_string(p);
      out += "; ";
    }
    return out;
  };
  // Split in four: process 2 has read what its devices in replica 0 want.
  const std::size_t split[] = {0, 1, 2, 3, 0, 1, 2, 3};
  EXPECT_EQ(text(replicas.routes(split)), "box 0 1 -> 0; box 1 1 -> 0; ");
  EXPECT_THAT(replicas.read_by(0, split), ElementsAre());
  EXPECT_THAT(replicas.read_by(1, split), ElementsAre(0, 1));
  EXPECT_THAT(replicas.read_by(2, split), ElementsAre(2, 3));
  // Split in two the other way: each process of the primary replica reads both, and they take
  // turns.
  const std::size_t halves[] = {0, 1, 0, 1, 0, 1, 0, 1};
  EXPECT_EQ(text(replicas.routes(halves)), "box 0 1 -> 0; box 1 2 -> 0; ");
  const std::size_t whole[] = {0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(text(replicas.routes(whole)), "box 0 1 -> 0; ");
}

TEST(Replicas, KnowsTheSameMesh) {
  const Mesh mesh = make_mesh({2, 2}, {"r", "m"});
  const Replicas replicas(mesh, {});
  EXPECT_TRUE(replicas.is_same(mesh));
  Mesh other = mesh;
  other.device_ids = {};  // counts as 0, 1, 2, ...
  other.axis_types.clear();
  EXPECT_TRUE(replicas.is_same(other));
  EXPECT_FALSE(replicas.is_same(make_mesh({2, 2}, {"r", "n"})));
  EXPECT_FALSE(replicas.is_same(make_mesh({2, 2}, {"r", "m"}, 1)));
  EXPECT_FALSE(replicas.is_same(make_mesh({4, 1}, {"r", "m"})));
}

TEST(BroadcastGroups, KeepTheLimitOrAreOneArray) {
  const std::uint64_t bytes[] = {4, 4, 3, 20, 0, 8, 1, 30};
  EXPECT_THAT(broadcast_groups(bytes, 8),
              ElementsAre(Pair(0, 2), Pair(2, 3), Pair(3, 4), Pair(4, 6), Pair(6, 7), Pair(7, 8)));
  EXPECT_THAT(broadcast_groups(bytes, 1000), ElementsAre(Pair(0, 8)));
  EXPECT_EQ(broadcast_groups(bytes, 0).size(), 8U);
  EXPECT_EQ(broadcast_groups(bytes, -1).size(), 8U);
  EXPECT_TRUE(broadcast_groups({}, 8).empty());
}

TEST(BroadcastGroups, TheDefaultLimitIsAThirdOfWhatTheHostHasBeside) {
  const std::int64_t host = default_broadcast_limit({}, 1) * 3;
  EXPECT_GT(host, std::int64_t{1} << 28U);
  const std::uint64_t used[] = {std::uint64_t{1} << 27U, std::uint64_t{1} << 27U};
  EXPECT_NEAR(static_cast<double>(default_broadcast_limit(used, 0.75)),
              (static_cast<double>(host) - (1 << 28U)) / 4, 4);
  EXPECT_LT(default_broadcast_limit({}, -1), 0);
  EXPECT_THAT([] { default_broadcast_limit({}, 1.01); },
              FailsWith(Code::kInvalidArgument, "at most 1"));
}

}  // namespace
}  // namespace cairn::handlers
