// crypto.h -- hashes and signatures of requests, computed by OpenSSL's libcrypto. It is loaded on
// the first call; every function throws unimplemented if it is missing.
#pragma once

#include <cairn/bytes.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

using Sha256Digest = std::array<std::byte, 32>;
using Md5Digest = std::array<std::byte, 16>;

// A hash of bytes that come in pieces. Not safe for concurrent use.
class Sha256 {
 public:
  Sha256();
  void update(ByteView bytes);
  // The hash of everything so far. Call it once, last.
  [[nodiscard]] Sha256Digest finish();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
};

// The hash of the parts, one after another.
Sha256Digest sha256(std::span<const ByteView> parts);
Sha256Digest sha256(ByteView bytes);
// The keyed hash of RFC 2104.
Sha256Digest hmac_sha256(ByteView key, ByteView bytes);
// For Content-MD5. Throws unimplemented where OpenSSL refuses MD5 (FIPS).
Md5Digest md5(std::span<const ByteView> parts);
// Signs with an RSA key: RS256 of JSON Web Tokens (RSASSA-PKCS1-v1_5 with SHA-256). `pem` is an
// unencrypted private key. Throws invalid_argument if it is not.
Bytes sign_rs256(std::string_view pem, ByteView bytes);

// "OpenSSL 3.0.15 3 Sep 2024": the library that is loaded.
std::string crypto_version();

// Lower-case hexadecimal digits, as signatures of requests need them.
std::string hex_digits(ByteView bytes);

}  // namespace cairn::inline v0::object
