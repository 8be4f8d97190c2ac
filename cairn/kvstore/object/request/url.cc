// url.cc -- URLs of object stores.
#include <cairn/kvstore/object/request/url.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/range.h>

#include <algorithm>

namespace cairn::inline v0::object {
namespace {

constexpr std::size_t kLongestKey = 1024;  // bytes, of S3 and of Google Cloud Storage

[[noreturn]] void refuse_url(std::string_view url, std::string_view why) {
  // A URL may hold a password or a signature: only what stands before them is shown.
  std::string_view shown = url.substr(0, url.find_first_of("?#"));
  if (const std::size_t user = shown.find('@'); user != std::string_view::npos)
    shown = shown.substr(0, std::min(shown.find("://") + 3, user));
  invalid_argument("URL \"" + std::string(shown) + "\": " + std::string(why));
}

bool is_bucket_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

bool is_bucket_name(std::string_view name) {
  constexpr std::size_t kLongestBucket = 255;
  return !name.empty() && name.size() <= kLongestBucket && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), is_bucket_character);
}

std::string_view without_slashes_at_end(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

StoreUrl parse_bucket_url(std::string_view url, StoreScheme scheme) {
  const std::string_view rest = url.substr(url.find("://") + 3);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  StoreUrl parsed{.scheme = scheme, .bucket = std::string(rest.substr(0, slash))};
  if (parsed.bucket.empty()) refuse_url(url, "the bucket is missing");
  if (!is_bucket_name(parsed.bucket))
    refuse_url(url, "a bucket's name has only letters, digits, '-', '.' and '_'");
  if (slash < rest.size()) parsed.prefix = without_slashes_at_end(rest.substr(slash + 1));
  if (parsed.prefix.empty()) return parsed;
  if (const char* flaw = flaw_of_object_key(parsed.prefix))
    refuse_url(url, "the part behind the bucket " + std::string(flaw));
  return parsed;
}

void check_http_path(std::string_view url, std::string_view path) {
  const auto decoded = percent_decoded_text(path);
  if (!decoded) refuse_url(url, "a '%' has no two hexadecimal digits behind it");
  if (decoded->find('\0') != std::string::npos) refuse_url(url, "it holds a NUL byte");
  if (!path.empty() && !is_below_folder(std::string_view(*decoded).substr(1)))
    refuse_url(url, "its path has an empty part, \".\" or \"..\"");
}

StoreUrl parse_http_url(std::string_view url) {
  if (url.find_first_of("?#") != std::string_view::npos)
    refuse_url(url, "it must not have a query or a fragment");
  const bool has_odd = std::any_of(url.begin(), url.end(), [](char c) {
    const bool is_visible = c > ' ' && c <= '~';
    return !is_visible || c == '\\' || c == '"' || c == '<' || c == '>';
  });
  if (has_odd) refuse_url(url, "it has characters that must be percent-encoded");
  const std::string_view origin = origin_of(url);
  if (origin.empty()) refuse_url(url, "the host is missing");
  if (origin.find('@') != std::string_view::npos)
    refuse_url(url, "it must not hold a user or a password");
  const std::string_view path = without_slashes_at_end(url.substr(origin.size()));
  check_http_path(url, path);
  return {.scheme = StoreScheme::kHttp, .origin = std::string(origin), .path = std::string(path)};
}

}  // namespace

std::optional<StoreScheme> store_scheme_of(std::string_view url) {
  if (url.starts_with("s3://")) return StoreScheme::kS3;
  if (url.starts_with("gs://")) return StoreScheme::kGcs;
  if (url.starts_with("http://") || url.starts_with("https://")) return StoreScheme::kHttp;
  return std::nullopt;
}

StoreUrl parse_store_url(std::string_view url) {
  const auto scheme = store_scheme_of(url);
  if (!scheme) refuse_url(url, "it does not begin with s3://, gs://, http:// or https://");
  return *scheme == StoreScheme::kHttp ? parse_http_url(url) : parse_bucket_url(url, *scheme);
}

const char* flaw_of_object_key(std::string_view key) {
  if (key.size() > kLongestKey) return "has more than 1024 bytes";
  if (key.find('\0') != std::string_view::npos) return "holds a NUL byte";
  if (!valid_utf8(key)) return "is not UTF-8";
  for (const std::string_view name : split(key, '/')) {
    if (name.empty()) return "has an empty component";
    if (name == "." || name == "..") return "has a component \".\" or \"..\"";
  }
  return nullptr;
}

void check_object_key(std::string_view key) {
  check_not_empty(key);
  if (const char* flaw = flaw_of_object_key(key))
    invalid_argument("key \"" + std::string(key) + "\" " + flaw + ", so it cannot name an object");
}

bool may_begin_object_keys(std::string_view prefix) {
  const std::string_view folders = folder_prefix(prefix);
  const bool has_folders =
      folders.empty() || is_below_folder(folders.substr(0, folders.size() - 1));
  return has_folders && prefix.size() <= kLongestKey && prefix.find('\0') == std::string_view::npos;
}

std::string_view origin_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  const std::size_t end = std::min(url.find_first_of("/?#", scheme + 3), url.size());
  return end == scheme + 3 ? std::string_view() : url.substr(0, end);
}

}  // namespace cairn::inline v0::object
