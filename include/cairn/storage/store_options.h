// store_options.h -- StoreOptions: how Cairn reaches an object store (s3://, gs://, http://, hf://).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Keys of an S3 account, or a bearer token for Google Cloud Storage and the Hugging Face Hub. Never
// appears in a message.
struct StoreCredentials {
  std::string access_key = {};     // s3
  std::string secret_key = {};     // s3
  std::string session_token = {};  // s3: for temporary keys; "" for none
  std::string bearer_token = {};   // gs, hf: an OAuth 2.0 access token, or a Hub token
};

// Options of an object store. Local paths ignore them. What is not given here comes from the
// environment variables and files of the vendors' own tools; docs/guides/object-stores.md lists
// them.
struct StoreOptions {
  std::string endpoint = {};  // "http://localhost:9000"; "": that of the environment or the vendor
  std::string region = {};    // s3; "": that of the environment or the profile, else us-east-1
  std::string profile = {};   // s3: the section of the shared configuration files; "": AWS_PROFILE
  bool anonymous = false;     // send no credentials
  std::optional<StoreCredentials> credentials = {};  // nullopt: found as the vendor's tools do
  // s3: http://endpoint/bucket/key instead of http://bucket.endpoint/key. nullopt: path style for
  // every endpoint but Amazon's own.
  std::optional<bool> path_style = {};
  bool verify_tls = true;
  std::string ca_file = {};  // certificates to trust, PEM; "": those of the system
  std::size_t max_connections = 32;
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{30'000};  // without a byte in either direction
  std::chrono::milliseconds retry_time{120'000};    // from the first try of a request to the last
};

// What this process has exchanged with object stores so far. Bytes are those of bodies.
struct StoreTraffic {
  std::uint64_t requests = 0;  // with those that were repeated
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
};
// May be called from any thread.
[[nodiscard]] StoreTraffic store_traffic();

}  // namespace cairn::inline v0
#pragma GCC visibility pop
