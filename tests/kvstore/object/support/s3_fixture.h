// s3_fixture.h -- an S3 store over a server in memory, with clocks that only waits move.
#pragma once

#include <cairn/kvstore/object/s3/s3_store.h>

#include <atomic>
#include <memory>
#include <string>

#include "tests/kvstore/object/support/fake_s3.h"
#include "tests/kvstore/object/support/scripted_transport.h"
#include "tests/kvstore/object/support/thread_clock.h"

namespace cairn::object::testing {

class FixedAwsKeys : public AwsCredentials {
 public:
  FixedAwsKeys(std::optional<AwsKeys> keys, bool has_newer)
      : keys_(std::move(keys)), has_newer_(has_newer) {}
  std::optional<AwsKeys> get() override { return keys_; }
  bool refresh() override { return has_newer_; }
  std::string source() const override { return "a test"; }

 private:
  std::optional<AwsKeys> keys_;
  bool has_newer_;
};

struct S3Options {
  std::optional<AwsKeys> keys = AwsKeys{"key", "secret", {}, {}};
  std::string bucket = FakeS3::kBucket;
  std::string prefix = {};
  std::string region = "us-east-1";
  bool has_newer_keys = false;
};

// A connection whose waits take no time, but use up the retry time.
inline S3Connection connect_to(std::shared_ptr<HttpTransport> fake) {
  return {.transport = std::move(fake),
          .policy = policy_without_waits(),
          .limits = {},
          .stats = std::make_shared<StoreStats>(),
          .dialect = std::make_shared<S3Dialect>()};
}

inline std::shared_ptr<S3Client> make_client(const S3Connection& connection,
                                             const S3Options& options = {}) {
  const auto signer = std::make_shared<S3Signer>(
      std::make_shared<FixedAwsKeys>(options.keys, options.has_newer_keys), options.region,
      [] { return FakeS3::kNow; });
  return std::make_shared<S3Client>(
      S3Address{.origin = "http://s3.test:9000", .bucket = options.bucket}, signer, connection);
}

inline StorePtr make_s3_store(std::shared_ptr<HttpTransport> fake, const S3Options& options = {}) {
  static std::atomic<int> ids{0};
  return std::make_shared<S3Store>(make_client(connect_to(std::move(fake)), options),
                                   options.prefix, [] { return "id-" + std::to_string(++ids); });
}

}  // namespace cairn::object::testing
