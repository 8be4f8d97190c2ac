// The files by which processes meet, damaged in every way.
#include <cairn/distributed/coordinator/message.h>
#include <cairn/distributed/coordinator/process_record.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_codec.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn::distributed {
namespace {

using testing::check_damages;
using testing::Damage;
using testing::FailsWith;
using testing::insert_at;
using testing::put_at;
using testing::reseal_crc32c;

constexpr std::size_t kNameLength = 32;
constexpr std::size_t kValueLength = 44;  // behind a name of four bytes

Message example() {
  return {
      .process = 2, .processes = 4, .round = 7, .name = "save", .value = Bytes(9, std::byte{5})};
}

TEST(MessageFile, RoundTripsAndRefusesEveryTruncationAndFlippedBit) {
  testing::check_codec(example(), encode_message, decode_message, testing::Guard::kChecksum);
  testing::check_codec(Message{}, encode_message, decode_message, testing::Guard::kChecksum);
}

TEST(MessageFile, DamageBehindTheChecksumIsFound) {
  const auto sealed = [](auto damage) {
    return [damage](Bytes& b) {
      damage(b);
      reseal_crc32c(b);
    };
  };
  const std::vector<Damage> table = {
      {"empty", [](Bytes& b) { b.clear(); }, Code::kDataLoss, "unexpected end"},
      {"another file", [](Bytes& b) { b[0] = std::byte{'{'}; }, Code::kDataLoss,
       "the magic bytes are wrong"},
      {"a name longer than the file",
       sealed([](Bytes& b) { put_at<std::uint64_t>(b, kNameLength, 1000); }), Code::kDataLoss,
       "1000 bytes wanted"},
      {"a name of all there is",
       sealed([](Bytes& b) { put_at<std::uint64_t>(b, kNameLength, ~std::uint64_t{0}); }),
       Code::kDataLoss, "wanted"},
      {"a value longer than the file",
       sealed([](Bytes& b) { put_at<std::uint64_t>(b, kValueLength, 1U << 30U); }), Code::kDataLoss,
       "wanted"},
      {"a value that takes the checksum",
       sealed([](Bytes& b) { put_at<std::uint64_t>(b, kValueLength, 13); }), Code::kDataLoss,
       "unexpected end"},
      {"a value that leaves bytes over",
       sealed([](Bytes& b) { put_at<std::uint64_t>(b, kValueLength, 8); }), Code::kDataLoss,
       "left over"},
      {"bytes behind it", [](Bytes& b) { insert_at(b, b.size(), as_bytes("xyz")); },
       Code::kDataLoss, "crc32c mismatch"}};
  check_damages(encode_message(example()), table, decode_message);
}

TEST(ProcessRecordFile, RoundTrips) {
  const ProcessRecord record = record_of_this_process({.process_index = 3, .process_count = 8});
  EXPECT_EQ(parse_record(record_text(record)), record);
  EXPECT_EQ(record.pid, static_cast<std::uint64_t>(getpid()));
  EXPECT_EQ(record.nonce.size(), 32U);
  EXPECT_NE(record_of_this_process({.process_index = 3, .process_count = 8}).nonce, record.nonce);
}

TEST(ProcessRecordFile, RefusesDamagedRecords) {
  const std::string good = record_text(record_of_this_process({}));
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_THAT([&] { parse_record(std::string_view(good).substr(0, n)); },
                FailsWith(Code::kDataLoss))
        << n;
  EXPECT_THAT([] { parse_record("[]"); }, FailsWith(Code::kDataLoss, "'process' is not a number"));
  EXPECT_THAT([] { parse_record(R"({"process": -1})"); },
              FailsWith(Code::kDataLoss, "'process' is not a number"));
  EXPECT_THAT([] { parse_record(R"({"process": 1, "processes": 2, "silence": 0, "host": 3})"); },
              FailsWith(Code::kDataLoss, "'host' is not a string"));
  EXPECT_THAT([] { parse_record(std::string(100000, '[')); }, FailsWith(Code::kDataLoss));
}

TEST(ProcessRecordFile, KnowsWhoHasEnded) {
  ProcessRecord mine = record_of_this_process({});
  EXPECT_FALSE(has_ended(mine));
  ProcessRecord earlier = mine;  // that had our number
  earlier.started += 1;
  EXPECT_TRUE(has_ended(earlier));
  ProcessRecord elsewhere = mine;  // on another host, or in another container: nothing is known
  elsewhere.pid_space = "another boot pid:[1]";
  elsewhere.pid = ~std::uint64_t{0};
  EXPECT_FALSE(has_ended(elsewhere));

  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  mine.pid = static_cast<std::uint64_t>(child);
  EXPECT_TRUE(has_ended(mine)) << "nobody has asked for its status yet";
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(has_ended(mine));
}

}  // namespace
}  // namespace cairn::distributed
