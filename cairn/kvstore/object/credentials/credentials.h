// credentials.h -- where a store's keys come from.
#pragma once

#include <cairn/kvstore/object/transport/http.h>
#include <cairn/storage/store_options.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0::object {

// Keys of an S3 account.
struct AwsKeys {
  std::string access_key;
  std::string secret_key;
  std::string session_token = {};              // "": none
  std::optional<std::int64_t> expires_s = {};  // seconds since 1970; nullopt: never
  bool operator==(const AwsKeys&) const = default;
};

// A source of keys that are fetched again before they expire. Safe to use from many threads.
class AwsCredentials {
 public:
  AwsCredentials() = default;
  AwsCredentials(const AwsCredentials&) = delete;
  AwsCredentials& operator=(const AwsCredentials&) = delete;
  virtual ~AwsCredentials() = default;

  // nullopt: anonymous.
  [[nodiscard]] virtual std::optional<AwsKeys> get() = 0;
  // Forgets keys that the store has refused as expired. Returns false if there are no others.
  virtual bool refresh() = 0;
  // Where the keys come from, for messages: "AWS_ACCESS_KEY_ID", "profile dev". No secret.
  [[nodiscard]] virtual std::string source() const = 0;
};

// Which source of S3 keys is used: the first that is configured, or only one.
enum class AwsSource : std::uint8_t { kFirst, kEnvironment, kProfile, kContainer, kInstance };

// What the search for credentials asks of its surroundings; tests give their own.
struct Surroundings {
  std::function<std::optional<std::string>(const std::string& name)> environment;
  // The text of a small file; nullopt if there is none.
  std::function<std::optional<std::string>(const std::string& path)> file;
  std::function<std::int64_t()> now_s;  // seconds since 1970
  std::shared_ptr<HttpTransport> transport;
  // Runs a program and returns what it writes to its standard output. Throws io if it fails.
  std::function<std::string(const std::vector<std::string>& command)> run = {};
  // Other than kFirst: StoreOptions::credentials and all other sources are not used, and requests
  // are never sent unsigned for want of keys. StoreOptions::anonymous still counts.
  AwsSource keys_from = AwsSource::kFirst;
};

// The surroundings of this process.
Surroundings process_surroundings(std::shared_ptr<HttpTransport> transport);

}  // namespace cairn::inline v0::object
