// sigv4.h -- signatures of requests, as S3 wants them (AWS Signature Version 4). Pure: a request
// and a time in, headers out.
#pragma once

#include <cairn/kvstore/object/transport/http.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

struct SigningKey {
  std::string access_key;
  std::string secret_key;
  std::string session_token = {};  // "": none
  std::string region;
  std::string service = "s3";
};

// The steps of a signature; tests compare them one by one.
struct SignedParts {
  std::string canonical_request;
  std::string string_to_sign;
  std::string authorization;  // the value of the header
};

// Instead of the hash of the body, where TLS protects it.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

// Adds x-amz-date, x-amz-security-token, x-amz-content-sha256 (S3 only) and authorization to the
// request. All headers that it has are signed, with the host of its URL. Path and query of the URL
// must be percent-encoded as percent_encoded() does it. `payload_hash` is the hexadecimal SHA-256
// of the body, or kUnsignedPayload.
SignedParts sign_v4(HttpRequest& request, std::string_view payload_hash, const SigningKey& key,
                    std::int64_t now_s);

// The hexadecimal SHA-256 of the body of a request.
std::string payload_hash_of(const HttpRequest& request);

}  // namespace cairn::inline v0::object
