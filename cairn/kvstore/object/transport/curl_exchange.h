// curl_exchange.h -- CurlExchange, one request and its answer through one handle of libcurl.
#pragma once

#include <cairn/kvstore/object/transport/answer_reader.h>
#include <cairn/kvstore/object/transport/curl_api.h>

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <string>

namespace cairn::inline v0::object {

// What does not change between the exchanges of a transport.
struct CurlSettings {
  bool verify_tls = true;
  std::string ca_file = {};  // "": those of libcurl
};

class CurlExchange {
 public:
  // The arguments must outlive the exchange. Throws invalid_argument for a URL or a header that
  // cannot be sent.
  CurlExchange(CurlHandle* handle, const HttpRequest& request, const HttpLimits& limits,
               const CurlSettings& settings);

  // Call it once. Throws cancelled and deadline_exceeded.
  std::variant<HttpResponse, TransportError> perform();

 private:
  struct FreeList {
    void operator()(CurlList* list) const { curl_api().list_free(list); }
  };

  template <class Value>
  void set(CurlOption option, Value value);
  void set_defaults(const CurlSettings& settings);
  void set_method();
  void set_body();
  void set_headers();
  void set_receive_buffer();
  void set_callbacks();
  void add_line(const std::string& line);
  std::variant<HttpResponse, TransportError> outcome(int code);
  [[nodiscard]] TransportError error_of(int code) const;
  [[nodiscard]] std::string reason(int code) const;

  std::size_t send_body(std::byte* out, std::size_t size);
  // Asked at least once a second, with the bytes of the bodies.
  bool must_stop(std::int64_t received, std::int64_t sent);
  bool is_dripping(std::int64_t received, std::chrono::steady_clock::time_point now);
  void note_progress() { last_progress_ = std::chrono::steady_clock::now(); }

  const CurlApi& api_;
  CurlHandle* handle_;
  const HttpRequest& request_;
  const HttpLimits& limits_;
  AnswerReader reader_;
  std::unique_ptr<CurlList, FreeList> headers_;
  std::array<char, kCurlErrorSize> error_text_{};
  std::uint64_t body_size_ = 0;
  std::size_t part_ = 0;         // of the body: the part that is sent next
  std::size_t part_offset_ = 0;  // bytes of it that are sent
  std::int64_t sent_ = 0;
  std::chrono::steady_clock::time_point last_progress_;
  bool has_stalled_ = false;
  static constexpr std::int64_t kLeastBytesASecond = 256;
  std::chrono::steady_clock::time_point window_begin_;
  std::int64_t window_received_ = 0;
  bool drips_ = false;
  std::exception_ptr stopped_;  // the work of this thread is to stop
};

}  // namespace cairn::inline v0::object
