// url.h -- URLs of object stores and web servers, and the keys that they may hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

enum class StoreScheme : std::uint8_t { kS3, kGcs, kHttp };

// A URL in parts. s3://bucket/prefix and gs://bucket/prefix hold the prefix literally: "%41" is
// three characters. http(s)://host/path is percent-encoded, as everywhere.
struct StoreUrl {
  StoreScheme scheme = StoreScheme::kS3;
  std::string bucket;  // s3, gs
  std::string prefix;  // s3, gs: "" or a key, without a '/' at its end
  std::string origin;  // http: "https://host:8080"
  std::string path;    // http: "" or "/a%20b", without a '/' at its end
};

// The scheme of s3://, gs://, http:// and https://; nullopt for anything else.
std::optional<StoreScheme> store_scheme_of(std::string_view url);
// Throws invalid_argument: another scheme, no bucket or host, characters that a bucket's name
// cannot have, a prefix that is not a key, a user or a query in an http URL.
StoreUrl parse_store_url(std::string_view url);

// Returns why `key` cannot be the name of an object; nullptr if it can. The file store refuses the
// same keys, so that a checkpoint can be copied to a folder.
const char* flaw_of_object_key(std::string_view key);
// Throws invalid_argument if the key is empty or has a flaw.
void check_object_key(std::string_view key);
// Whether any key that begins with `prefix` can be the name of an object.
bool may_begin_object_keys(std::string_view prefix);

// "http://host:1" of "http://host:1/a/b?c"; "" if the URL has no host.
std::string_view origin_of(std::string_view url);

}  // namespace cairn::inline v0::object
