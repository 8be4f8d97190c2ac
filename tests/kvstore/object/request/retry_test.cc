// retry_test.cc -- which tries are repeated, and when.
#include <cairn/kvstore/object/request/retry.h>
#include <gmock/gmock.h>

#include "tests/kvstore/object/support/scripted_transport.h"

namespace cairn::object {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::answer;
using testing::s3_error;
using testing::StillClock;

constexpr RequestFacts kRead{.what = "read"};
constexpr RequestFacts kOnce{.what = "once", .is_idempotent = false};

TEST(Judge, RepeatsWhatMayPass) {
  for (const int status : {408, 429, 503}) {
    EXPECT_EQ(judge(kRead, answer(status)), Verdict::kRetry) << status;
    EXPECT_EQ(judge(kOnce, answer(status)), Verdict::kRetry) << status;
  }
  for (const int status : {500, 502, 504}) {
    EXPECT_EQ(judge(kRead, answer(status)), Verdict::kRetry) << status;
    EXPECT_EQ(judge(kOnce, answer(status)), Verdict::kDone) << status;
  }
  EXPECT_EQ(judge(kRead, answer(400, s3_error("RequestTimeout"))), Verdict::kRetry);
}

TEST(Judge, LeavesTheRestToTheCaller) {
  for (const int status : {200, 204, 206, 301, 304, 307, 404, 405, 409, 412, 416, 501})
    EXPECT_EQ(judge(kRead, answer(status)), Verdict::kDone) << status;
  EXPECT_EQ(judge(kRead, answer(400, s3_error("InvalidArgument"))), Verdict::kDone);
  EXPECT_EQ(judge(kRead, answer(403, s3_error("AccessDenied"))), Verdict::kDone);
}

TEST(Judge, RepeatsConflictsOnlyOnRequest) {
  EXPECT_EQ(judge({.retries_conflict = true}, answer(409)), Verdict::kRetry);
}

TEST(Judge, AsksForOtherCredentials) {
  EXPECT_EQ(judge(kRead, answer(401)), Verdict::kRefreshCredentials);
  EXPECT_EQ(judge(kRead, answer(400)), Verdict::kRefreshCredentials);
  EXPECT_EQ(judge(kRead, answer(400, s3_error("ExpiredToken"))), Verdict::kRefreshCredentials);
  EXPECT_EQ(judge(kRead, answer(403, s3_error("ExpiredToken"))), Verdict::kRefreshCredentials);
}

TEST(Judge, FindsAnErrorInAnOk) {
  constexpr RequestFacts kComplete{.ok_may_hold_error = true};
  EXPECT_EQ(judge(kComplete, answer(200, s3_error("InternalError"))), Verdict::kRetry);
  EXPECT_EQ(judge(kComplete, answer(200, s3_error("SlowDown"))), Verdict::kRetry);
  EXPECT_EQ(judge(kComplete, answer(200, s3_error("InvalidPart"))), Verdict::kDone);
  EXPECT_EQ(judge(kComplete, answer(200, "<Done/>")), Verdict::kDone);
  EXPECT_EQ(judge(kRead, answer(200, s3_error("InternalError"))), Verdict::kDone)
      << "an object may hold anything";
}

TEST(Judge, LooksAtHowFarAFailedExchangeGot) {
  EXPECT_EQ(judge(kRead, TransportError{.delivery = Delivery::kAnswered}), Verdict::kRetry);
  EXPECT_EQ(judge(kOnce, TransportError{.delivery = Delivery::kMaybeSent}), Verdict::kFail);
  EXPECT_EQ(judge(kOnce, TransportError{.delivery = Delivery::kNotSent}), Verdict::kRetry);
  EXPECT_EQ(judge(kRead, TransportError{.is_final = true}), Verdict::kFail);
}

TEST(RetryAfter, IsANumberOfSeconds) {
  EXPECT_EQ(retry_after(answer(503, "", {{"Retry-After", "7"}})), seconds(7));
  EXPECT_EQ(retry_after(answer(503)), std::nullopt);
  for (const char* other : {"", "-1", "7 s", "99999999999", "Fri, 31 Dec 1999 23:59:59 GMT"})
    EXPECT_EQ(retry_after(answer(503, "", {{"retry-after", other}})), std::nullopt) << other;
}

TEST(Backoff, DoublesUpToALimitUntilTheTimeIsOver) {
  StillClock clock;
  const RetryPolicy policy = clock.policy(seconds(30));
  Backoff backoff(policy);
  std::vector<long> waits;
  while (const auto wait = backoff.next({})) {
    waits.push_back(wait->count());
    clock.passed += *wait;
  }
  EXPECT_THAT(waits, ::testing::ElementsAre(100, 200, 400, 800, 1600, 3200, 6400, 10000, 7300));
}

TEST(Backoff, DrawsAPartAndHonoursRetryAfter) {
  StillClock clock;
  RetryPolicy policy = clock.policy(seconds(30));
  policy.draw = [] { return 0.25; };
  Backoff backoff(policy);
  EXPECT_EQ(backoff.next({}), milliseconds(25));
  EXPECT_EQ(backoff.next(seconds(3)), seconds(3));
  EXPECT_EQ(backoff.next(seconds(300)), seconds(30)) << "one try at the end of the time";
}

}  // namespace
}  // namespace cairn::object
