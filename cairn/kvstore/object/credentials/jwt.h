// jwt.h -- JSON Web Tokens that an RSA key signs: how a service account of Google shows who it is.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::inline v0::object {

// What a token says. RFC 7519.
struct JwtClaims {
  std::string issuer;          // "iss": the account's address
  std::string scope;           // "scope": what it asks for
  std::string audience;        // "aud": who is to believe it
  std::int64_t issued_s = 0;   // "iat": seconds since 1970
  std::int64_t expires_s = 0;  // "exp"
};

// A key, and its number among those of the account ("": none is named).
struct JwtKey {
  std::string pem;  // an unencrypted private key
  std::string id;
};

// "header.claims.signature", each part in base64 for URLs. Throws invalid_argument if `key` is not
// a private RSA key, unimplemented if the system has no libcrypto.
std::string signed_jwt(const JwtClaims& claims, const JwtKey& key);

}  // namespace cairn::inline v0::object
