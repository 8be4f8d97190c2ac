// s3_address.cc -- URLs of buckets and objects.
#include <cairn/kvstore/object/s3/s3_address.h>

#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/sigv4.h>

namespace cairn::inline v0::object {
namespace {

std::string amazon_origin(std::string_view region) {
  const std::string_view end = region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com";
  return "https://s3." + std::string(region) + std::string(end);
}

std::string text_of_query(const Query& query) {
  std::string text;
  for (const auto& [name, value] : query) {
    text += text.empty() ? '?' : '&';
    text += name;
    if (!value.empty()) text += "=" + percent_encoded(value, Slash::kEncoded);
  }
  return text;
}

}  // namespace

std::string S3Address::url(std::string_view region, std::string_view key,
                           const Query& query) const {
  std::string url = origin.empty() ? amazon_origin(region) : origin;
  if (path_style)
    url += "/" + bucket;
  else
    url.insert(url.find("://") + 3, bucket + ".");
  if (!key.empty() || !path_style) url += "/";
  return url + percent_encoded(key, Slash::kKept) + text_of_query(query);
}

void S3Signer::sign(HttpRequest& request) {
  for (const auto& [name, value] : headers_.fields()) request.headers.add(name, value);
  const auto keys = credentials_->get();
  if (!keys) return;
  const bool is_protected = request.url.starts_with("https://");
  const std::string hash = is_protected ? std::string(kUnsignedPayload) : payload_hash_of(request);
  sign_v4(request, hash,
          {.access_key = keys->access_key,
           .secret_key = keys->secret_key,
           .session_token = keys->session_token,
           .region = region()},
          now_s_());
}

std::string S3Signer::region() const {
  const std::scoped_lock lock(mutex_);
  return region_;
}

bool S3Signer::learn_region(const std::string& region) {
  const std::scoped_lock lock(mutex_);
  if (region.empty() || region == region_) return false;
  region_ = region;
  return true;
}

}  // namespace cairn::inline v0::object
