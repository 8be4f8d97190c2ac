// s3_address.h -- URLs of buckets and objects, and the signer of requests to them.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/kvstore/object/request/sender.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::object {

// Names and values of a query, not encoded yet. A name without a value stands alone.
using Query = std::vector<std::pair<std::string_view, std::string>>;

// Where a bucket is.
struct S3Address {
  std::string origin;  // "http://localhost:9000"; "": Amazon's own of the region
  std::string bucket;
  bool path_style = true;  // http://host/bucket/key, not http://bucket.host/key

  // The URL of a key; "": of the bucket.
  [[nodiscard]] std::string url(std::string_view region, std::string_view key,
                                const Query& query = {}) const;
};

// Signs for one bucket. Safe to use from many threads.
class S3Signer : public Signer {
 public:
  // `now_s`: seconds since 1970. `headers`: added to each request.
  S3Signer(std::shared_ptr<AwsCredentials> credentials, std::string region,
           std::function<std::int64_t()> now_s, HttpHeaders headers = {})
      : credentials_(std::move(credentials)),
        region_(std::move(region)),
        now_s_(std::move(now_s)),
        headers_(std::move(headers)) {}

  // Only adds the headers without credentials. The body is signed, too, unless TLS protects it.
  void sign(HttpRequest& request) override;
  bool refresh() override { return credentials_->refresh(); }

  [[nodiscard]] std::string region() const;
  // Takes the region that a store has named. Returns false if it is the one that was used.
  bool learn_region(const std::string& region);

 private:
  std::shared_ptr<AwsCredentials> credentials_;
  mutable std::mutex mutex_;
  std::string region_;
  std::function<std::int64_t()> now_s_;
  HttpHeaders headers_;
};

}  // namespace cairn::inline v0::object
