// open_http.cc -- makes the client of a web server, or takes one that is in use.
#include <cairn/kvstore/object/http/open_http.h>

#include <cairn/kvstore/object/client_cache.h>
#include <cairn/kvstore/object/http/http_store.h>
#include <cairn/kvstore/object/request/retry.h>
#include <cairn/kvstore/object/transport/curl_transport.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::object {
namespace {

std::shared_ptr<HttpClient> make_http_client(const StoreOptions& options,
                                             std::shared_ptr<HttpTransport> transport,
                                             const HttpHeaders& headers) {
  return std::make_shared<HttpClient>(
      HttpConnection{.transport = std::move(transport),
                     .policy = process_retry_policy(options.retry_time),
                     .limits = {options.connect_timeout, options.stall_timeout},
                     .stats = std::make_shared<StoreStats>(),
                     .headers = headers});
}

std::shared_ptr<HttpClient> http_client_for(const StoreOptions& options,
                                            const Surroundings& surroundings,
                                            const HttpHeaders& headers) {
  if (surroundings.transport) return make_http_client(options, surroundings.transport, headers);
  static auto& clients = *new ClientCache<HttpClient>();
  std::vector<std::string> key = {options.ca_file,
                                  std::to_string(options.verify_tls),
                                  std::to_string(options.max_connections),
                                  std::to_string(options.connect_timeout.count()),
                                  std::to_string(options.stall_timeout.count()),
                                  std::to_string(options.retry_time.count())};
  for (const auto& [name, value] : headers.fields()) key.insert(key.end(), {name, value});
  return clients.find_or_make(std::move(key), [&] {
    return make_http_client(options, std::make_shared<CurlTransport>(options), headers);
  });
}

}  // namespace

StorePtr open_http_store(const StoreUrl& url, const StoreOptions& options,
                         const Surroundings& surroundings, const HttpHeaders& headers) {
  return make_http_store(url.origin + url.path, http_client_for(options, surroundings, headers));
}

}  // namespace cairn::inline v0::object
