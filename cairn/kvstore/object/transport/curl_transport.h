// curl_transport.h -- CurlTransport, exchanges over the network with libcurl.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/kvstore/object/transport/curl_exchange.h>
#include <cairn/kvstore/object/transport/curl_handles.h>
#include <cairn/kvstore/object/transport/http.h>
#include <cairn/storage/store_options.h>

namespace cairn::inline v0::object {

// Keeps connections open for the next exchange: at most StoreOptions::max_connections exchanges run
// at once, others wait. HTTP/1.1; TLS as StoreOptions says; proxies as the environment variables
// https_proxy, http_proxy and no_proxy say. Content is never encoded.
class CurlTransport final : public HttpTransport {
 public:
  // Throws unimplemented if the system has no libcurl.
  explicit CurlTransport(const StoreOptions& options)
      : most_(options.max_connections),
        handles_(most_),
        settings_{options.verify_tls, options.ca_file} {}

  // Also throws failed_precondition in a process that was forked from the one that made the
  // transport, and invalid_argument for a URL or a header that cannot be sent.
  [[nodiscard]] std::variant<HttpResponse, TransportError> send(const HttpRequest& request,
                                                                const HttpLimits& limits) override {
    if (request.body.empty()) expect_waiting(most_);  // reads; a write has its bytes in memory
    const CurlHandles::Lease handle(handles_);
    return CurlExchange(handle.get(), request, limits, settings_).perform();
  }

 private:
  std::size_t most_;
  CurlHandles handles_;
  CurlSettings settings_;
};

}  // namespace cairn::inline v0::object
