// aws_keys.cc -- reads keys from JSON and XML.
#include <cairn/kvstore/object/credentials/aws_keys.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/kvstore/object/request/store_time.h>
#include <cairn/kvstore/object/request/xml.h>

#include <algorithm>

namespace cairn::inline v0::object {
namespace {

bool is_header_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// The name of the member that has no place in a header; null: all have.
const char* flaw_of_keys(const AwsKeys& keys) {
  if (keys.access_key.empty() || !is_header_word(keys.access_key)) return "access key";
  if (keys.secret_key.empty() || !is_header_word(keys.secret_key)) return "secret key";
  return is_header_word(keys.session_token) ? nullptr : "session token";
}

AwsKeys checked_reply(AwsKeys keys, std::string expiration) {
  if (const char* flaw = flaw_of_keys(keys))
    data_loss("the credentials have no usable " + std::string(flaw));
  if (expiration.empty()) return keys;
  if (expiration.ends_with("+00:00")) expiration.replace(expiration.size() - 6, 6, "Z");
  const std::int64_t time_ns = ns_of_iso_time(expiration);
  if (time_ns == 0) data_loss("the time when the credentials expire cannot be read");
  keys.expires_s = time_ns / 1'000'000'000;
  return keys;
}

// "" if the member is missing or null.
std::string text_of_member(const Json& json, std::string_view name) {
  const Json* member = json.find(name);
  if (member == nullptr || member->is_null()) return {};
  const std::string* text = member->as_string();
  if (text == nullptr) data_loss("the member " + std::string(name) + " is not a string");
  return *text;
}

}  // namespace

AwsKeys parse_json_keys(std::string_view text) {
  const Json json = parse_json(text, {.max_depth = 16, .max_bytes = std::size_t{64} << 10U});
  if (json.as_object() == nullptr) data_loss("the credentials are not a JSON object");
  std::string token = text_of_member(json, "SessionToken");
  if (token.empty()) token = text_of_member(json, "Token");
  return checked_reply({.access_key = text_of_member(json, "AccessKeyId"),
                        .secret_key = text_of_member(json, "SecretAccessKey"),
                        .session_token = std::move(token)},
                       text_of_member(json, "Expiration"));
}

AwsKeys parse_sts_keys(std::string_view text) {
  const XmlElement root =
      parse_xml(text, {.max_elements = 1000, .max_bytes = std::size_t{64} << 10U});
  const XmlElement* result = root.find("AssumeRoleWithWebIdentityResult");
  const XmlElement* keys = result == nullptr ? nullptr : result->find("Credentials");
  if (keys == nullptr) data_loss("the answer of the token service has no credentials");
  return checked_reply({.access_key = std::string(keys->text_of("AccessKeyId")),
                        .secret_key = std::string(keys->text_of("SecretAccessKey")),
                        .session_token = std::string(keys->text_of("SessionToken"))},
                       std::string(keys->text_of("Expiration")));
}

void check_keys(const AwsKeys& keys) {
  if (const char* flaw = flaw_of_keys(keys))
    invalid_argument("the " + std::string(flaw) + " is empty or has characters that no key has");
}

}  // namespace cairn::inline v0::object
