// scripted_transport.h -- a transport that answers from a list, and a clock that only waits move.
#pragma once

#include <cairn/kvstore/object/request/retry.h>
#include <cairn/kvstore/object/request/sender.h>
#include <cairn/kvstore/object/transport/http.h>
#include <gmock/gmock.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::object::testing {

// An answer with a body and headers.
inline HttpResponse answer(int status, std::string_view body = {},
                           const std::vector<std::pair<std::string, std::string>>& headers = {}) {
  HttpResponse response{.status = status};
  response.body.assign(as_bytes(body).begin(), as_bytes(body).end());
  response.received = body.size();
  for (const auto& [name, value] : headers) response.headers.add(name, value);
  return response;
}

// The body of an error of S3.
inline std::string s3_error(std::string_view code) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + std::string(code) +
         "</Code><Message>not for logs</Message><RequestId>R-1</RequestId></Error>";
}

// Gives the outcomes in order, and keeps the requests. A request without an outcome is a failure.
class ScriptedTransport : public HttpTransport {
 public:
  explicit ScriptedTransport(std::deque<Outcome> outcomes) : outcomes_(std::move(outcomes)) {}

  std::variant<HttpResponse, TransportError> send(const HttpRequest& request,
                                                  const HttpLimits& /*limits*/) override {
    requests.push_back(request);
    if (outcomes_.empty()) {
      ADD_FAILURE() << "one request too many: " << request.method << " " << request.url;
      return TransportError{.is_final = true, .why = "no outcome is left"};
    }
    if (outcomes_.size() == 1 && repeats_last) return outcomes_.front();
    Outcome outcome = std::move(outcomes_.front());
    outcomes_.pop_front();
    return outcome;
  }
  [[nodiscard]] std::size_t left() const { return outcomes_.size(); }

  std::vector<HttpRequest> requests;
  bool repeats_last = false;  // the last outcome is that of all further requests

 private:
  std::deque<Outcome> outcomes_;
};

// A clock that stands still but for the waits of a policy.
struct StillClock {
  std::chrono::milliseconds passed{0};
  std::vector<std::chrono::milliseconds> waits;

  // The policy draws the longest waits.
  RetryPolicy policy(std::chrono::milliseconds retry_time = std::chrono::seconds(120)) {
    return {.retry_time = retry_time,
            .draw = [] { return 1.0; },
            .now = [this] { return std::chrono::steady_clock::time_point(passed); },
            .sleep =
                [this](std::chrono::milliseconds time) {
                  passed += time;
                  waits.push_back(time);
                }};
  }
};

}  // namespace cairn::object::testing
