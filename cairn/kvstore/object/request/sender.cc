// sender.cc -- the loop over tries.
#include <cairn/kvstore/object/request/sender.h>

#include <cairn/base/cancellation.h>
#include <cairn/error.h>
#include <cairn/kvstore/object/request/retry.h>
#include <cairn/kvstore/object/request/store_error.h>

#include <utility>

namespace cairn::inline v0::object {
namespace {

// "1.5" for 1500 ms.
std::string tenths_of_seconds(std::chrono::milliseconds time) {
  const auto tenths = time.count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string reason_of(const Outcome& outcome) {
  if (const auto* error = std::get_if<TransportError>(&outcome)) return error->why;
  return status_text(std::get<HttpResponse>(outcome));
}

// Throws the error of a request that got no answer and is not sent again. A value that is longer
// than the caller accepts is damage; all else is the fault of the connection or the store.
[[noreturn]] void fail_without_answer(const HttpRequest& request, const Outcome& outcome) {
  const auto& error = std::get<TransportError>(outcome);
  const std::string why = place_of(request) + ": " + error.why;
  const bool is_too_long = error.is_final && error.delivery == Delivery::kAnswered;
  if (!is_too_long) throw Error(Code::kIo, why);
  if (request.into.empty()) throw Error(Code::kDataLoss, why);
  throw WrongAnswer(why);
}

struct Effort {
  std::uint64_t tries;
  std::chrono::milliseconds time;
};

Error error_after_all(const HttpRequest& request, const RequestFacts& facts, const Outcome& outcome,
                      const Effort& effort) {
  return {Code::kIo, place_of(request) + ": the " + std::string(facts.what) + " failed " +
                         std::to_string(effort.tries) + " times in " +
                         tenths_of_seconds(effort.time) +
                         " s, at last with: " + reason_of(outcome)};
}

// What the store asks for.
std::optional<std::chrono::seconds> wished_wait(const Outcome& outcome) {
  const auto* response = std::get_if<HttpResponse>(&outcome);
  return response == nullptr ? std::nullopt : retry_after(*response);
}

std::uint64_t bytes_in(std::span<const ByteView> parts) {
  std::uint64_t bytes = 0;
  for (const ByteView part : parts) bytes += part.size();
  return bytes;
}

void count_try(StoreStats& stats, const HttpRequest& request, const Outcome& outcome) {
  ++stats.requests;
  if (std::holds_alternative<HttpResponse>(outcome)) ++stats.answers;
  stats.sent += bytes_in(request.body);
  stats.received += std::visit([](const auto& each) { return each.received; }, outcome);
}

}  // namespace

Sender::Sender(std::shared_ptr<HttpTransport> transport, std::shared_ptr<Signer> signer,
               RetryPolicy policy, HttpLimits limits, std::shared_ptr<StoreStats> stats)
    : transport_(std::move(transport)),
      signer_(std::move(signer)),
      policy_(std::move(policy)),
      limits_(limits),
      stats_(std::move(stats)) {}

// Sends the request once.
Outcome Sender::try_once(const HttpRequest& request) {
  Outcome outcome = transport_->send(request, limits_);
  count_try(*stats_, request, outcome);
  count_try(process_stats(), request, outcome);
  return outcome;
}

Answer Sender::send(const std::function<HttpRequest()>& make, const RequestFacts& facts) {
  Backoff backoff(policy_);
  bool may_repeat = false, has_refreshed = false;
  for (std::uint64_t tries = 1;; ++tries, ++stats_->retries) {
    throw_if_cancelled();
    HttpRequest request = make();
    if (signer_) signer_->sign(request);
    Outcome outcome = try_once(request);
    const Verdict verdict = judge(facts, outcome);
    if (verdict == Verdict::kFail) fail_without_answer(request, outcome);
    if (verdict == Verdict::kRefreshCredentials && !has_refreshed && signer_) {
      has_refreshed = true;
      if (signer_->refresh()) continue;
    }
    if (verdict != Verdict::kRetry) return {std::get<HttpResponse>(std::move(outcome)), may_repeat};
    may_repeat = may_repeat || may_have_acted(outcome);
    const auto wait = backoff.next(wished_wait(outcome), stats_->answers > 0);
    if (!wait) throw error_after_all(request, facts, outcome, {tries, backoff.elapsed()});
    policy_.sleep(*wait);
  }
}

}  // namespace cairn::inline v0::object
