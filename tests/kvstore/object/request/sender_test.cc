// sender_test.cc -- the loop over tries.
#include <cairn/base/cancellation.h>
#include <cairn/kvstore/object/request/sender.h>
#include <cairn/storage/store_options.h>
#include <gmock/gmock.h>

#include <stop_token>

#include "tests/kvstore/object/support/scripted_transport.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using testing::answer;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::s3_error;
using testing::ScriptedTransport;
using testing::StillClock;

// Counts, and writes the number of the credentials into a header.
struct CountingSigner : Signer {
  void sign(HttpRequest& request) override {
    request.headers.add("authorization", "secret-" + std::to_string(version));
  }
  bool refresh() override { return ++version <= newest; }
  int version = 1;
  int newest = 1;
};

struct Sending {
  explicit Sending(std::deque<Outcome> outcomes)
      : transport(std::make_shared<ScriptedTransport>(std::move(outcomes))) {}

  Answer send(const RequestFacts& facts = {.what = "read"}) {
    Sender sender(transport, signer, clock.policy(), {}, stats);
    return sender.send(
        [] { return HttpRequest{.method = "GET", .url = "http://u:p@host/b/k?token=hidden"}; },
        facts);
  }

  StillClock clock;
  std::shared_ptr<ScriptedTransport> transport;
  std::shared_ptr<CountingSigner> signer = std::make_shared<CountingSigner>();
  std::shared_ptr<StoreStats> stats = std::make_shared<StoreStats>();
};

TEST(Sender, ReturnsAnAnswerAndCounts) {
  Sending sending({answer(200, "body")});
  const Answer got = sending.send();
  EXPECT_EQ(as_text(got.response.body), "body");
  EXPECT_FALSE(got.was_repeated);
  EXPECT_EQ(sending.stats->requests, 1U);
  EXPECT_EQ(sending.stats->retries, 0U);
  EXPECT_EQ(sending.stats->received, 4U);
}

TEST(Sender, CountsForTheProcessToo) {
  const StoreTraffic before = store_traffic();
  (void)Sending({answer(503), answer(200, "body")}).send();
  (void)Sending({answer(200, "text")}).send();
  const StoreTraffic after = store_traffic();
  EXPECT_EQ(after.requests - before.requests, 3U);
  EXPECT_GE(after.received - before.received, 8U);
  EXPECT_EQ(after.sent, before.sent);
}

TEST(Sender, RepeatsAndSaysWhetherTheStoreMayHaveActed) {
  Sending refused({answer(429), TransportError{.delivery = Delivery::kNotSent}, answer(200)});
  EXPECT_FALSE(refused.send().was_repeated);
  EXPECT_EQ(refused.stats->retries, 2U);
  Sending lost({TransportError{.delivery = Delivery::kMaybeSent}, answer(412)});
  EXPECT_TRUE(lost.send().was_repeated);
  Sending failed({answer(500), answer(200)});
  EXPECT_TRUE(failed.send().was_repeated);
}

TEST(Sender, HonoursRetryAfter) {
  Sending sending({answer(503, "", {{"Retry-After", "5"}}), answer(200)});
  (void)sending.send();
  EXPECT_THAT(sending.clock.waits, ::testing::ElementsAre(std::chrono::seconds(5)));
}

TEST(Sender, AServerThatNeverAnsweredIsGivenUpSoon) {
  Sending sending({TransportError{.why = "could not resolve the name"}});
  sending.transport->repeats_last = true;
  EXPECT_THAT([&] { (void)sending.send(); },
              FailsWith(Code::kIo, "times in 15.0 s, at last with: could not resolve"));
}

TEST(Sender, ADeadServerCostsOneBudget) {
  Sending sending({TransportError{.why = "connection refused"}});
  sending.stats->answers = 1;
  sending.transport->repeats_last = true;
  const Error error = cairn::testing::error_of([&] { (void)sending.send(); });
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_THAT(error.message(), HasSubstr("GET http://host/b/k: the read failed"));
  EXPECT_THAT(error.message(), HasSubstr("times in 120.0 s, at last with: connection refused"));
  EXPECT_THAT(error.message(), Not(HasSubstr("hidden")));
  EXPECT_EQ(sending.clock.passed, std::chrono::seconds(120));
}

TEST(Sender, NamesTheLastAnswer) {
  Sending sending({answer(503, s3_error("SlowDown"))});
  sending.transport->repeats_last = true;
  EXPECT_THAT([&] { (void)sending.send(); },
              FailsWith(Code::kIo, "at last with: 503 SlowDown, request id R-1"));
}

TEST(Sender, DoesNotRepeatWhatCannotHelp) {
  Sending tls({TransportError{.is_final = true, .why = "TLS: wrong name"}});
  EXPECT_THAT([&] { (void)tls.send(); }, FailsWith(Code::kIo, "TLS: wrong name"));
  Sending endless(
      {TransportError{.delivery = Delivery::kAnswered, .is_final = true, .why = "too long"}});
  EXPECT_THAT([&] { (void)endless.send(); }, FailsWith(Code::kDataLoss, "too long"));
}

TEST(Sender, FetchesOtherCredentialsOnce) {
  Sending sending({answer(401), answer(200)});
  sending.signer->newest = 2;
  EXPECT_EQ(sending.send().response.status, 200);
  EXPECT_EQ(sending.transport->requests[1].headers.find("Authorization"), "secret-2");
  EXPECT_TRUE(sending.clock.waits.empty());
  Sending wrong({answer(401), answer(401)});
  wrong.signer->newest = 9;
  EXPECT_EQ(wrong.send().response.status, 401);
  Sending no_others({answer(401)});
  EXPECT_EQ(no_others.send().response.status, 401);
}

TEST(Sender, StopsWhenItIsAskedTo) {
  std::stop_source stop;
  const CancellationScope scope{Cancellation(stop.get_token())};
  stop.request_stop();
  Sending sending({});
  EXPECT_THAT([&] { (void)sending.send(); }, FailsWith(Code::kCancelled));
}

}  // namespace
}  // namespace cairn::object
