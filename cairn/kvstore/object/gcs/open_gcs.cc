#include <cairn/kvstore/object/gcs/open_gcs.h>

#include <cairn/kvstore/object/client_cache.h>
#include <cairn/kvstore/object/credentials/gcs_token.h>
#include <cairn/kvstore/object/endpoint.h>
#include <cairn/kvstore/object/gcs/gcs_client.h>
#include <cairn/kvstore/object/gcs/gcs_store.h>
#include <cairn/kvstore/object/request/retry.h>
#include <cairn/kvstore/object/transport/curl_transport.h>

#include <memory>
#include <utility>
#include <vector>

namespace cairn::inline v0::object {
namespace {

std::string gcs_endpoint(const StoreOptions& options, const Surroundings& surroundings) {
  if (!options.endpoint.empty()) return checked_endpoint(options.endpoint, "the option endpoint");
  constexpr const char* kVariable = "STORAGE_EMULATOR_HOST";
  const std::string host = surroundings.environment(kVariable).value_or("");
  if (host.empty()) return "https://storage.googleapis.com";
  return checked_endpoint(host.find("://") == std::string::npos ? "http://" + host : host,
                          kVariable);
}

std::shared_ptr<const GcsClient> make_gcs_client(const std::string& bucket,
                                                 const StoreOptions& options,
                                                 Surroundings surroundings) {
  if (!surroundings.transport) surroundings.transport = std::make_shared<CurlTransport>(options);
  const std::string endpoint = gcs_endpoint(options, surroundings);
  const RetryPolicy policy = process_retry_policy(options.retry_time);
  const HttpLimits limits = {.connect_timeout = options.connect_timeout,
                             .stall_timeout = options.stall_timeout};
  auto sender = std::make_shared<Sender>(surroundings.transport,
                                         find_gcs_signer(options, endpoint, surroundings, policy),
                                         policy, limits, std::make_shared<StoreStats>());
  return std::make_shared<const GcsClient>(endpoint, bucket, std::move(sender));
}

// All that a client depends on: the options, and what the environment adds to them.
std::vector<std::string> gcs_sharing_key(const std::string& bucket, const StoreOptions& options,
                                         const Surroundings& surroundings) {
  std::vector<std::string> key = connection_key(options);
  key.insert(key.end(), {bucket, gcs_endpoint(options, surroundings)});
  for (const char* name :
       {"GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "HOME", "GCE_METADATA_HOST"})
    key.push_back(surroundings.environment(name).value_or(""));
  return key;
}

std::shared_ptr<const GcsClient> gcs_client_for(const std::string& bucket,
                                                const StoreOptions& options,
                                                const Surroundings& surroundings) {
  const auto make = [&] { return make_gcs_client(bucket, options, surroundings); };
  if (surroundings.transport) return make();
  static auto& clients = *new ClientCache<const GcsClient>();
  return clients.find_or_make(gcs_sharing_key(bucket, options, surroundings), make);
}

}  // namespace

std::string gcs_token_source(const StoreOptions& options, const Surroundings& surroundings) {
  return gcs_token_source(options, gcs_endpoint(options, surroundings), surroundings);
}

StorePtr open_gcs_store(const std::string& bucket, const std::string& prefix,
                        const StoreOptions& options, const Surroundings& surroundings) {
  StorePtr store = make_gcs_store(gcs_client_for(bucket, options, surroundings));
  return prefix.empty() ? store : prefix_store(std::move(store), prefix + "/");
}

}  // namespace cairn::inline v0::object
