// retry.cc -- which tries are repeated, and the waits between them.
#include <cairn/kvstore/object/request/retry.h>

#include <cairn/base/cancellation.h>
#include <cairn/kvstore/object/request/store_error.h>

#include <algorithm>
#include <charconv>
#include <random>
#include <thread>

namespace cairn::inline v0::object {
namespace {

Verdict judge_error(const RequestFacts& facts, const TransportError& error) {
  if (error.is_final) return Verdict::kFail;
  return facts.is_idempotent || error.delivery == Delivery::kNotSent ? Verdict::kRetry
                                                                     : Verdict::kFail;
}

// A 200 may hold an error, which the store found after it had sent the status.
Verdict judge_code_in_ok(const RequestFacts& facts, const HttpResponse& response) {
  const std::string code = error_reply_of(response).code;
  const bool passes = code == "InternalError" || code == "SlowDown" || code == "ServiceUnavailable";
  return passes && facts.is_idempotent ? Verdict::kRetry : Verdict::kDone;
}

Verdict judge_bad_request(const HttpResponse& response) {
  if (response.body.empty()) return Verdict::kRefreshCredentials;
  const std::string code = error_reply_of(response).code;
  if (code == "RequestTimeout") return Verdict::kRetry;
  return code == "ExpiredToken" ? Verdict::kRefreshCredentials : Verdict::kDone;
}

Verdict judge_answer(const RequestFacts& facts, const HttpResponse& response) {
  switch (response.status) {
    case 200:
      return facts.ok_may_hold_error ? judge_code_in_ok(facts, response) : Verdict::kDone;
    case 408:
    case 429:
    case 503:
      return Verdict::kRetry;
    case 500:
    case 502:
    case 504:
      return facts.is_idempotent ? Verdict::kRetry : Verdict::kDone;
    case 409:
      return facts.retries_conflict ? Verdict::kRetry : Verdict::kDone;
    case 400:
      return judge_bad_request(response);
    case 401:
      return Verdict::kRefreshCredentials;
    case 403:
      return error_reply_of(response).code == "ExpiredToken" ? Verdict::kRefreshCredentials
                                                             : Verdict::kDone;
    default:
      return Verdict::kDone;
  }
}

double random_fraction() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

// Sleeps in pieces, so that a cancellation is noticed soon.
void sleep_unless_cancelled(std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kPiece{100};
  for (; time.count() > 0; time -= kPiece) {
    throw_if_cancelled();
    std::this_thread::sleep_for(std::min(time, kPiece));
  }
}

}  // namespace

Verdict judge(const RequestFacts& facts, const Outcome& outcome) {
  if (const auto* error = std::get_if<TransportError>(&outcome)) return judge_error(facts, *error);
  return judge_answer(facts, std::get<HttpResponse>(outcome));
}

bool may_have_acted(const Outcome& outcome) {
  if (const auto* error = std::get_if<TransportError>(&outcome))
    return error->delivery != Delivery::kNotSent;
  return std::get<HttpResponse>(outcome).status >= 500;
}

std::optional<std::chrono::seconds> retry_after(const HttpResponse& response) {
  const auto text = response.headers.find("retry-after");
  if (!text) return std::nullopt;
  std::uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return std::chrono::seconds(seconds);
}

Backoff::Backoff(const RetryPolicy& policy)
    : policy_(&policy), begin_(policy.now()), limit_(policy.first_wait) {}

std::optional<std::chrono::milliseconds> Backoff::next(std::optional<std::chrono::seconds> at_least,
                                                       bool is_reached) {
  const auto time =
      is_reached ? policy_->retry_time : std::min(policy_->retry_time, policy_->first_contact_time);
  const auto left = time - elapsed();
  if (left.count() <= 0) return std::nullopt;
  auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(policy_->draw() * limit_);
  limit_ = std::min(2 * limit_, policy_->longest_wait);
  if (at_least) wait = std::max<std::chrono::milliseconds>(wait, *at_least);
  return std::min(wait, left);
}

std::chrono::milliseconds Backoff::elapsed() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(policy_->now() - begin_);
}

RetryPolicy process_retry_policy(std::chrono::milliseconds retry_time) {
  return {.retry_time = retry_time,
          .draw = random_fraction,
          .now = std::chrono::steady_clock::now,
          .sleep = sleep_unless_cancelled};
}

}  // namespace cairn::inline v0::object
