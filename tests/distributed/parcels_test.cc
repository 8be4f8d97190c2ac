// Parcels between processes: every byte where it is wanted and nowhere else, in messages of bounded length, whatever the coordinator can
// do.
#include <cairn/distributed/parcels.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>

#include "tests/support/forwarding_coordinator.h"
#include "tests/support/matchers.h"
#include "tests/support/processes.h"

namespace cairn::distributed {
namespace {

using testing::FailsWith;

// A coordinator that looks at what is delivered, and may be one that can only gather.
class Watched final : public testing::ForwardingCoordinator {
 public:
  Watched(std::shared_ptr<Coordinator> of, bool only_gathers) : ForwardingCoordinator(std::move(of)), only_gathers_(only_gathers) {}
  std::vector<Bytes> deliver(std::string_view name, ByteView value, const Delivery& between, Timeout timeout) override {
    ++meetings;
    longest = std::max<std::uint64_t>(longest, value.size());
    auto came =
        only_gathers_ ? Coordinator::deliver(name, value, between, timeout) : ForwardingCoordinator::deliver(name, value, between, timeout);
    std::uint64_t together = 0;
    for (const Bytes& bytes : came) together += bytes.size();
    most_at_once = std::max(most_at_once, together);
    all += together;
    return came;
  }
  std::uint64_t meetings = 0, longest = 0, most_at_once = 0, all = 0;  // bytes

 private:
  bool only_gathers_;
};

struct Drawn {
  std::size_t from;
  std::vector<std::size_t> to;
  Bytes bytes;
};
std::vector<Drawn> draw(std::mt19937& random, std::size_t processes) {
  std::vector<Drawn> parcels(random() % 40);
  for (Drawn& parcel : parcels) {
    parcel.from = random() % processes;
    for (std::size_t p = 0; p < processes; ++p)
      if (p != parcel.from && random() % 2 == 0) parcel.to.push_back(p);
    if (parcel.to.empty()) parcel.to.push_back((parcel.from + 1) % processes);
    parcel.bytes.resize(random() % 3 == 0 ? 0 : random() % 300);
    for (std::byte& b : parcel.bytes) b = static_cast<std::byte>(random());
  }
  return parcels;
}

class RandomParcels : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Random, RandomParcels, ::testing::Range(0U, 60U));

TEST_P(RandomParcels, ComeToThoseWhoWantThem) {
  std::mt19937 random(GetParam());
  const std::size_t processes = 2 + random() % 4;
  const std::vector<Drawn> drawn = draw(random, processes);
  const ParcelLimits limits{.in_flight = 1 + random() % 400, .message = 1 + random() % 400};
  const bool only_gathers = random() % 4 == 0;
  const auto errors = testing::run_as_processes(processes, [&](const std::shared_ptr<Coordinator>& job) {
    const auto watched = std::make_shared<Watched>(job, only_gathers);
    const Team team({.coordinator = watched});
    std::vector<Bytes> mine;
    std::vector<Parcel> parcels;
    std::uint64_t due = 0;
    for (const Drawn& parcel : drawn) {
      const bool gives = parcel.from == team.index();
      const bool gets = std::find(parcel.to.begin(), parcel.to.end(), team.index()) != parcel.to.end();
      due += gets ? parcel.bytes.size() : 0;
      mine.push_back(gives ? parcel.bytes : Bytes(gets ? parcel.bytes.size() : 0, std::byte{0xee}));
      parcels.push_back({parcel.from, parcel.to, parcel.bytes.size(), gives || gets ? mine.back().data() : nullptr});
    }
    deliver_parcels(team, "parcels", parcels, limits);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      if (parcels[i].bytes != nullptr) {
        EXPECT_TRUE(mine[i] == drawn[i].bytes) << "parcel " << i;
      }
    }
    EXPECT_EQ(watched->all, due);
    EXPECT_LE(watched->longest, limits.message);
    // One byte from each there must be.
    EXPECT_LE(watched->most_at_once, std::max<std::uint64_t>(limits.in_flight, processes - 1));
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
}

TEST(Parcels, ManySmallOnesForTheSameGoTogether) {
  const auto errors = testing::run_as_processes(3, [&](const std::shared_ptr<Coordinator>& job) {
    const auto watched = std::make_shared<Watched>(job, false);
    Bytes bytes(1000);
    std::vector<Parcel> parcels;
    // Alternately for process 1 and for 1 and 2.
    for (std::size_t i = 0; i < 1000; ++i)
      parcels.push_back({0, i % 2 == 0 ? std::vector<std::size_t>{1} : std::vector<std::size_t>{1, 2}, 1, &bytes[i]});
    deliver_parcels(Team({.coordinator = watched}), "parcels", parcels, {});
    EXPECT_EQ(watched->meetings, 2U);
    EXPECT_EQ(watched->all, job->process_index() == 0 ? 0U : job->process_index() == 1 ? 1000U : 500U);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
}

TEST(Parcels, AMessageOfAnotherLengthIsRefused) {
  const auto errors = testing::run_as_processes(2, [&](const std::shared_ptr<Coordinator>& job) {
    Bytes bytes(10);
    const std::vector<Parcel> parcels = {{0, {1}, job->process_index() == 0 ? 9U : 10U, bytes.data()}};
    deliver_parcels(Team({.coordinator = job}), "parcels", parcels, {});
  });
  EXPECT_FALSE(errors[0]);
  ASSERT_TRUE(errors[1]);
  EXPECT_EQ(errors[1]->code(), Code::kDataLoss);
  EXPECT_NE(errors[1]->message().find("process 0 sent 9 bytes where 10 are due"), std::string::npos) << errors[1]->message();
}

// What comes with the n-th delivery comes without its end.
class Truncating final : public testing::ForwardingCoordinator {
 public:
  Truncating(std::shared_ptr<Coordinator> of, int deliveries) : ForwardingCoordinator(std::move(of)), left_(deliveries) {}
  std::vector<Bytes> deliver(std::string_view name, ByteView value, const Delivery& between, Timeout timeout) override {
    auto came = ForwardingCoordinator::deliver(name, value, between, timeout);
    if (left_-- == 0) came[0].pop_back();
    return came;
  }

 private:
  int left_;
};

// Whether there are more meetings to come or all parcels are delivered.
TEST(Parcels, WhoFailsAndLivesOnIsNamedAtOnce) {
  for (const int deliveries : {0, 3, 9}) {
    const auto errors = testing::run_as_processes(3, [&](const std::shared_ptr<Coordinator>& job) {
      const Team team({.coordinator = job->process_index() == 1 ? std::make_shared<Truncating>(job, deliveries) : job});
      Bytes bytes(10);
      const std::vector<Parcel> parcels = {{0, {1, 2}, 10, bytes.data()}};
      std::optional<Error> error;
      try {
        deliver_parcels(team, "parcels", parcels, {.in_flight = 100, .message = 1});
        team.step("parcels", Before::kShortWork, [] {});
      } catch (const Error& e) {
        error = e;
      }
      job->barrier("lives on", std::chrono::seconds(60));
      team.step("parcels", Before::kShortWork, [] {});  // all have been to as many meetings
      if (error) throw Error(*error);
    });
    const std::string why = "process 0 sent 0 bytes where 1 are due";
    ASSERT_TRUE(errors[0] && errors[1] && errors[2]);
    EXPECT_EQ(errors[1]->message(), why);
    for (const std::size_t p : {0, 2}) EXPECT_EQ(errors[p]->message(), "'parcels': process 1 broke off: " + why);
  }
}

}  // namespace
}  // namespace cairn::distributed
