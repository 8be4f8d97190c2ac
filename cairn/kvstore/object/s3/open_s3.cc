// open_s3.cc -- opens s3://bucket/prefix, and keeps what open stores share.
#include <cairn/kvstore/object/s3/open_s3.h>

#include <cairn/kvstore/object/client_cache.h>
#include <cairn/kvstore/object/credentials/aws_credentials.h>
#include <cairn/kvstore/object/request/retry.h>
#include <cairn/kvstore/object/s3/s3_store.h>
#include <cairn/kvstore/object/transport/crypto.h>
#include <cairn/kvstore/object/transport/curl_transport.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

namespace cairn::inline v0::object {
namespace {

// Everything in the environment that says how to reach an endpoint, and with which keys.
constexpr const char* kVariables[] = {"HOME",
                                      "AWS_ACCESS_KEY_ID",
                                      "AWS_SECRET_ACCESS_KEY",
                                      "AWS_SESSION_TOKEN",
                                      "AWS_PROFILE",
                                      "AWS_DEFAULT_PROFILE",
                                      "AWS_CONFIG_FILE",
                                      "AWS_SHARED_CREDENTIALS_FILE",
                                      "AWS_WEB_IDENTITY_TOKEN_FILE",
                                      "AWS_ROLE_ARN",
                                      "AWS_ROLE_SESSION_NAME",
                                      "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                      "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                      "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                      "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                      "AWS_EC2_METADATA_DISABLED",
                                      "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                      "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
                                      "AWS_ENDPOINT_URL_S3",
                                      "AWS_ENDPOINT_URL",
                                      "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                                      "AWS_REGION",
                                      "AWS_DEFAULT_REGION",
                                      "AWS_CA_BUNDLE"};

// What the open stores of one endpoint share.
struct SharedEndpoint {
  S3Connection connection;
  std::shared_ptr<AwsCredentials> credentials;
  AwsEndpoint endpoint;
};

std::shared_ptr<const SharedEndpoint> connect_endpoint(StoreOptions options,
                                                       Surroundings surroundings) {
  auto shared = std::make_shared<SharedEndpoint>();
  shared->endpoint = find_aws_endpoint(options, surroundings);
  options.ca_file = shared->endpoint.ca_file;
  if (!surroundings.transport) surroundings.transport = std::make_shared<CurlTransport>(options);
  shared->connection = {.transport = surroundings.transport,
                        .policy = process_retry_policy(options.retry_time),
                        .limits = {.connect_timeout = options.connect_timeout,
                                   .stall_timeout = options.stall_timeout},
                        .stats = std::make_shared<StoreStats>(),
                        .dialect = std::make_shared<S3Dialect>()};
  shared->connection.dialect->refuses_second_create = shared->endpoint.endpoint.empty();
  shared->credentials = find_aws_credentials(options, surroundings);
  return shared;
}

// All options, and what the environment adds to them.
std::vector<std::string> s3_sharing_key(const StoreOptions& options,
                                        const Surroundings& surroundings) {
  std::vector<std::string> key = connection_key(options);
  key.insert(key.end(), {options.endpoint, options.region, options.profile,
                         std::to_string(static_cast<int>(surroundings.keys_from))});
  for (const char* name : kVariables) key.push_back(surroundings.environment(name).value_or(""));
  return key;
}

std::shared_ptr<const SharedEndpoint> endpoint_for(const StoreOptions& options,
                                                   const Surroundings& surroundings) {
  const auto make = [&] { return connect_endpoint(options, surroundings); };
  if (surroundings.transport) return make();
  static auto& endpoints = *new ClientCache<const SharedEndpoint>();
  return endpoints.find_or_make(s3_sharing_key(options, surroundings), make);
}

// 128 random bits in hexadecimal digits.
std::string random_save_id() {
  std::random_device random;
  std::array<std::byte, 16> bytes{};
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return hex_digits(bytes);
}

// The certificates of a host do not match a bucket with a dot in its name before it.
bool takes_path_style(const StoreOptions& options, const AwsEndpoint& endpoint,
                      std::string_view bucket) {
  const bool has_dot = bucket.find('.') != std::string_view::npos;
  return options.path_style.value_or(endpoint.path_style || has_dot);
}

HttpHeaders headers_of(const S3RequestOptions& requests) {
  HttpHeaders headers;
  if (requests.requester_pays) headers.add("x-amz-request-payer", "requester");
  return headers;
}

}  // namespace

StorePtr open_s3_store(const std::string& bucket, const std::string& prefix,
                       const StoreOptions& options, const Surroundings& surroundings,
                       const S3RequestOptions& requests) {
  const auto shared = endpoint_for(options, surroundings);
  const S3Address address{.origin = shared->endpoint.endpoint,
                          .bucket = bucket,
                          .path_style = takes_path_style(options, shared->endpoint, bucket)};
  const auto signer = std::make_shared<S3Signer>(shared->credentials, shared->endpoint.region,
                                                 surroundings.now_s, headers_of(requests));
  // The client keeps the endpoint alive, so that the next store finds it.
  const std::shared_ptr<S3Client> client(new S3Client(address, signer, shared->connection),
                                         [shared](S3Client* each) { delete each; });
  return std::make_shared<S3Store>(client, prefix, random_save_id);
}

}  // namespace cairn::inline v0::object
