#include <cairn/kvstore/object/credentials/jwt.h>

#include <cairn/base/base64.h>
#include <cairn/base/json/json.h>
#include <cairn/kvstore/object/transport/crypto.h>

namespace cairn::inline v0::object {
namespace {

// JSON Web Tokens have no padding.
std::string jwt_part(ByteView bytes) {
  std::string text = encode_base64(bytes, Base64::kUrlSafe);
  while (text.ends_with('=')) text.pop_back();
  return text;
}

std::string jwt_part(const Json& json) { return jwt_part(as_bytes(to_text(json))); }

}  // namespace

std::string signed_jwt(const JwtClaims& claims, const JwtKey& key) {
  Json header = JsonObject{{"alg", Json("RS256")}, {"typ", Json("JWT")}};
  if (!key.id.empty()) header.set("kid", key.id);
  const Json body = JsonObject{{"iss", Json(claims.issuer)},
                               {"scope", Json(claims.scope)},
                               {"aud", Json(claims.audience)},
                               {"iat", Json(claims.issued_s)},
                               {"exp", Json(claims.expires_s)}};
  const std::string text = jwt_part(header) + "." + jwt_part(body);
  return text + "." + jwt_part(sign_rs256(key.pem, as_bytes(text)));
}

}  // namespace cairn::inline v0::object
