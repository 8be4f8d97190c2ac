// http.h -- one HTTP exchange. The transport knows no store, no retry and no signature.
#pragma once

#include <cairn/bytes.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::inline v0::object {

// Header fields in the order of the message. Names compare without regard to case.
class HttpHeaders {
 public:
  void add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  // The value of the first field of that name; nullopt if there is none.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& fields() const {
    return fields_;
  }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers = {};
  Bytes body = {};
  std::uint64_t received = 0;  // bytes of the body, wherever they went
};

struct HttpRequest {
  std::string method;  // "GET", "PUT", ...
  std::string url;     // complete, percent-encoded; sent exactly as it is
  HttpHeaders headers = {};
  std::span<const ByteView> body = {};  // sent one after another; must outlive the exchange
  bool expects_continue = false;        // send "Expect: 100-continue" before a large body
  // The most bytes of the body of a 2xx answer that are kept. A longer body ends the exchange with
  // an error, as soon as it is known. Of the body of another answer the first 64 KiB are kept.
  std::uint64_t most_body = 0;
  // If given: the body of a 2xx answer goes here, and must have exactly this many bytes. Parts
  // without data() are skipped. Bodies of other answers go to HttpResponse::body.
  std::span<const MutableByteView> into = {};
  // If given: how many bytes of `into` are filled, from the front. It is kept up to date, so that
  // whoever repeats a failed exchange can ask for the rest alone.
  std::uint64_t* filled = nullptr;
  // If given: called with a 2xx answer before its body is read, and throws to refuse it; send()
  // then throws the same. So no byte of a wrong part or version is placed.
  std::function<void(const HttpResponse& header)> check_header = {};
};

// How far a failed exchange got: whether the server may have acted on the request.
enum class Delivery : std::uint8_t { kNotSent, kMaybeSent, kAnswered };

// An exchange without a complete answer. `why` holds no secret and no query.
struct TransportError {
  Delivery delivery = Delivery::kNotSent;
  bool is_timeout = false;
  bool is_final = false;  // repeating it cannot help: TLS refused, the body is too long, no libcurl
  std::uint64_t received = 0;  // bytes of the body that were written to `into`, from the front
  std::string why;
};

struct HttpLimits {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{30'000};  // without a byte in either direction
};

// Sends requests. Safe to use from many threads; each call blocks until its answer is complete.
class HttpTransport {
 public:
  HttpTransport() = default;
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;
  virtual ~HttpTransport() = default;

  // Follows no redirect and decodes no content. Throws cancelled or deadline_exceeded if the
  // thread's work is to stop (base/cancellation.h).
  [[nodiscard]] virtual std::variant<HttpResponse, TransportError> send(
      const HttpRequest& request, const HttpLimits& limits) = 0;
};

}  // namespace cairn::inline v0::object
