// sender.h -- sends a request until it is answered: signs, sends, judges, waits and counts. The
// only loop over tries in the stores.
#pragma once

#include <cairn/kvstore/object/request/stats.h>
#include <cairn/kvstore/object/transport/http.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <variant>

namespace cairn::inline v0::object {

// What a caller knows about a request. Verdicts follow from these facts.
struct RequestFacts {
  // A name for messages: "read", "list", "write".
  std::string_view what = "request";
  bool is_idempotent = true;       // repeating it after a lost answer has the same effect
  bool retries_conflict = false;   // 409: racing conditional writes; ask again
  bool ok_may_hold_error = false;  // a 200 may hold <Error> in its body
};

// Adds credentials to a request. Called anew for each try, because signatures hold the time.
class Signer {
 public:
  Signer() = default;
  Signer(const Signer&) = delete;
  Signer& operator=(const Signer&) = delete;
  virtual ~Signer() = default;

  virtual void sign(HttpRequest& request) = 0;
  // The store says that the credentials have expired. Returns false if there are no newer ones.
  virtual bool refresh() = 0;
};

// How long and how often to try. Time is passed in, so that tests need not wait.
struct RetryPolicy {
  std::chrono::milliseconds retry_time{120'000};  // from the first try to the last
  // The same while the store has never answered: the name or the address may be wrong.
  std::chrono::milliseconds first_contact_time{15'000};
  std::chrono::milliseconds first_wait{100};
  std::chrono::milliseconds longest_wait{10'000};
  std::function<double()> draw;  // in [0, 1): full jitter
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(std::chrono::milliseconds)> sleep;  // ends early if the work is cancelled
};

// An answer, and whether an earlier try of the same request may have reached the store: then a
// failed precondition may be our own success.
struct Answer {
  HttpResponse response;
  bool was_repeated = false;
};

class Sender {
 public:
  Sender(std::shared_ptr<HttpTransport> transport, std::shared_ptr<Signer> signer,
         RetryPolicy policy, HttpLimits limits, std::shared_ptr<StoreStats> stats);

  // Calls make() for each try, signs, sends. Returns every answer that repeating cannot improve:
  // 2xx, 3xx, and 4xx but those below. Repeats 429, 500, 502, 503, 504, 400 RequestTimeout, broken
  // connections, and 409 if the facts say so; honours Retry-After. After retry_time it throws io
  // with the number of tries, the time and the last reason. Throws cancelled.
  Answer send(const std::function<HttpRequest()>& make, const RequestFacts& facts);

 private:
  std::variant<HttpResponse, TransportError> try_once(const HttpRequest& request);

  std::shared_ptr<HttpTransport> transport_;
  std::shared_ptr<Signer> signer_;  // null: anonymous
  RetryPolicy policy_;
  HttpLimits limits_;
  std::shared_ptr<StoreStats> stats_;
};

}  // namespace cairn::inline v0::object
