// Transfers between processes: every byte where it is wanted and nowhere else, in messages of
// bounded length, whatever the coordinator can do.
#include <cairn/distributed/transfer.h>
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
  Watched(std::shared_ptr<Coordinator> of, bool only_gathers)
      : ForwardingCoordinator(std::move(of)), only_gathers_(only_gathers) {}
  std::vector<Bytes> exchange(std::string_view name, ByteView value, const Delivery& between,
                              Timeout timeout) override {
    ++collectives;
    longest = std::max<std::uint64_t>(longest, value.size());
    auto came = only_gathers_ ? Coordinator::exchange(name, value, between, timeout)
                              : ForwardingCoordinator::exchange(name, value, between, timeout);
    std::uint64_t together = 0;
    for (const Bytes& bytes : came) together += bytes.size();
    most_at_once = std::max(most_at_once, together);
    all += together;
    return came;
  }
  std::uint64_t collectives = 0, longest = 0, most_at_once = 0, all = 0;  // bytes

 private:
  bool only_gathers_;
};

struct Drawn {
  std::size_t from;
  std::vector<std::size_t> to;
  Bytes bytes;
};
std::vector<Drawn> draw(std::mt19937& random, std::size_t processes) {
  std::vector<Drawn> transfers(random() % 40);
  for (Drawn& transfer : transfers) {
    transfer.from = random() % processes;
    for (std::size_t p = 0; p < processes; ++p)
      if (p != transfer.from && random() % 2 == 0) transfer.to.push_back(p);
    if (transfer.to.empty()) transfer.to.push_back((transfer.from + 1) % processes);
    transfer.bytes.resize(random() % 3 == 0 ? 0 : random() % 300);
    for (std::byte& b : transfer.bytes) b = static_cast<std::byte>(random());
  }
  return transfers;
}

class RandomTransfers : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Random, RandomTransfers, ::testing::Range(0U, 60U));

TEST_P(RandomTransfers, ComeToThoseWhoWantThem) {
  std::mt19937 random(GetParam());
  const std::size_t processes = 2 + random() % 4;
  const std::vector<Drawn> drawn = draw(random, processes);
  const TransferLimits limits{.in_flight = 1 + random() % 400, .message = 1 + random() % 400};
  const bool only_gathers = random() % 4 == 0;
  const auto errors =
      testing::run_as_processes(processes, [&](const std::shared_ptr<Coordinator>& job) {
        const auto watched = std::make_shared<Watched>(job, only_gathers);
        const ProcessGroup group({.coordinator = watched});
        std::vector<Bytes> mine;
        std::vector<Transfer> transfers;
        std::uint64_t due = 0;
        for (const Drawn& transfer : drawn) {
          const bool gives = transfer.from == group.index();
          const bool gets =
              std::find(transfer.to.begin(), transfer.to.end(), group.index()) != transfer.to.end();
          due += gets ? transfer.bytes.size() : 0;
          mine.push_back(gives ? transfer.bytes
                               : Bytes(gets ? transfer.bytes.size() : 0, std::byte{0xee}));
          transfers.push_back({transfer.from, transfer.to, transfer.bytes.size(),
                               gives || gets ? mine.back().data() : nullptr});
        }
        exchange_transfers(group, "transfers", transfers, limits);
        for (std::size_t i = 0; i < drawn.size(); ++i) {
          if (transfers[i].bytes != nullptr) {
            EXPECT_TRUE(mine[i] == drawn[i].bytes) << "transfer " << i;
          }
        }
        EXPECT_EQ(watched->all, due);
        EXPECT_LE(watched->longest, limits.message);
        // One byte from each there must be.
        EXPECT_LE(watched->most_at_once, std::max<std::uint64_t>(limits.in_flight, processes - 1));
      });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
}

TEST(Transfers, ManySmallOnesForTheSameGoTogether) {
  const auto errors = testing::run_as_processes(3, [&](const std::shared_ptr<Coordinator>& job) {
    const auto watched = std::make_shared<Watched>(job, false);
    Bytes bytes(1000);
    std::vector<Transfer> transfers;
    // Alternately for process 1 and for 1 and 2.
    for (std::size_t i = 0; i < 1000; ++i)
      transfers.push_back(
          {0, i % 2 == 0 ? std::vector<std::size_t>{1} : std::vector<std::size_t>{1, 2}, 1,
           &bytes[i]});
    exchange_transfers(ProcessGroup({.coordinator = watched}), "transfers", transfers, {});
    EXPECT_EQ(watched->collectives, 2U);
    EXPECT_EQ(watched->all, job->process_index() == 0   ? 0U
                            : job->process_index() == 1 ? 1000U
                                                        : 500U);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
}

TEST(Transfers, AMessageOfAnotherLengthIsRefused) {
  const auto errors = testing::run_as_processes(2, [&](const std::shared_ptr<Coordinator>& job) {
    Bytes bytes(10);
    const std::vector<Transfer> transfers = {
        {0, {1}, job->process_index() == 0 ? 9U : 10U, bytes.data()}};
    exchange_transfers(ProcessGroup({.coordinator = job}), "transfers", transfers, {});
  });
  EXPECT_FALSE(errors[0]);
  ASSERT_TRUE(errors[1]);
  EXPECT_EQ(errors[1]->code(), Code::kDataLoss);
  EXPECT_NE(errors[1]->message().find("process 0 sent 9 bytes, expected 10"), std::string::npos)
      << errors[1]->message();
}

// What comes with the n-th delivery comes without its end.
class Truncating final : public testing::ForwardingCoordinator {
 public:
  Truncating(std::shared_ptr<Coordinator> of, int deliveries)
      : ForwardingCoordinator(std::move(of)), left_(deliveries) {}
  std::vector<Bytes> exchange(std::string_view name, ByteView value, const Delivery& between,
                              Timeout timeout) override {
    auto came = ForwardingCoordinator::exchange(name, value, between, timeout);
    if (left_-- == 0) came[0].pop_back();
    return came;
  }

 private:
  int left_;
};

// Whether there are more collectives to come or all transfers are delivered.
TEST(Transfers, NamesAFailedProcessAtOnce) {
  for (const int deliveries : {0, 3, 9}) {
    const auto errors = testing::run_as_processes(3, [&](const std::shared_ptr<Coordinator>& job) {
      const ProcessGroup group({.coordinator = job->process_index() == 1
                                                   ? std::make_shared<Truncating>(job, deliveries)
                                                   : job});
      Bytes bytes(10);
      const std::vector<Transfer> transfers = {{0, {1, 2}, 10, bytes.data()}};
      std::optional<Error> error;
      try {
        exchange_transfers(group, "transfers", transfers, {.in_flight = 100, .message = 1});
        group.step("transfers", StepKind::kControl, [] {});
      } catch (const Error& e) {
        error = e;
      }
      job->barrier("lives on", std::chrono::seconds(60));
      group.step("transfers", StepKind::kControl, [] {});  // all have been to as many collectives
      if (error) throw Error(*error);
    });
    const std::string why = "process 0 sent 0 bytes, expected 1";
    ASSERT_TRUE(errors[0] && errors[1] && errors[2]);
    EXPECT_EQ(errors[1]->message(), why);
    for (const std::size_t p : {0, 2})
      EXPECT_EQ(errors[p]->message(), "'transfers': process 1 aborted: " + why);
  }
}

}  // namespace
}  // namespace cairn::distributed
