// retry.h -- decides whether a request is sent again, and when. Pure: time and random numbers are
// passed in.
#pragma once

#include <cairn/kvstore/object/request/sender.h>
#include <cairn/kvstore/object/transport/http.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <variant>

namespace cairn::inline v0::object {

// What one try ended with.
using Outcome = std::variant<HttpResponse, TransportError>;

enum class Verdict : std::uint8_t {
  kDone,                // an answer for the caller, good or bad
  kRetry,               // another try may succeed
  kRefreshCredentials,  // another try may succeed with other credentials
  kFail,                // there is no answer, and there will be none
};

// Judges one try:
//   no answer                       retry; fail if it is final, or if the request may have had an
//                                   effect and is not idempotent
//   408, 429, 503, RequestTimeout   retry: the store has done nothing
//   500, 502, 504                   retry if the request is idempotent
//   409                             retry if the facts say so
//   401, ExpiredToken, a bare 400   other credentials; a bare 400 is what HEAD gets for the token
//   200 that holds <Error>          as the status that the error's code has
//   others                          done
Verdict judge(const RequestFacts& facts, const Outcome& outcome);

// Whether the store may have acted on a request that ended so and is sent again.
bool may_have_acted(const Outcome& outcome);

// The seconds of a Retry-After header; nullopt if there is none, or it has another form.
std::optional<std::chrono::seconds> retry_after(const HttpResponse& response);

// Waiting times between tries: a random part of a limit that doubles ("full jitter"), and at least
// Retry-After.
class Backoff {
 public:
  // `policy` must outlive the object. The time counts from now.
  explicit Backoff(const RetryPolicy& policy);

  // How long to wait before the next try. nullopt: the time is over. `is_reached`: the store has
  // answered before; else first_contact_time counts, too.
  std::optional<std::chrono::milliseconds> next(std::optional<std::chrono::seconds> at_least,
                                                bool is_reached = true);
  [[nodiscard]] std::chrono::milliseconds elapsed() const;

 private:
  const RetryPolicy* policy_;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::milliseconds limit_;  // of the next wait
};

// The policy of this process: its clock, random numbers, and waits that a cancellation ends.
RetryPolicy process_retry_policy(std::chrono::milliseconds retry_time);

}  // namespace cairn::inline v0::object
