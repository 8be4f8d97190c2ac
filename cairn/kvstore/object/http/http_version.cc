// http_version.cc -- ETags and times of changes.
#include <cairn/kvstore/object/http/http_version.h>

namespace cairn::inline v0::object {
namespace {

// A longer value would only cost memory in every file that is open.
constexpr std::size_t kLongestVersion = 1024;

// "abc" in quotes. W/"abc" is weak: two files of one such tag may differ in their bytes.
bool is_strong_etag(std::string_view text) {
  return text.size() >= 2 && text.size() <= kLongestVersion && text.front() == '"' &&
         text.find('"', 1) == text.size() - 1;
}

}  // namespace

std::string http_version_of(const HttpHeaders& headers) {
  const auto etag = headers.find("ETag");
  if (etag && is_strong_etag(*etag)) return std::string(*etag);
  const auto changed = headers.find("Last-Modified");
  const bool is_time = changed && changed->size() <= kLongestVersion && !changed->starts_with('"');
  return is_time ? std::string(*changed) : std::string();
}

void add_version_condition(HttpHeaders& headers, const std::string& version) {
  if (!version.empty())
    headers.add(version.starts_with('"') ? "If-Match" : "If-Unmodified-Since", version);
}

bool is_other_version(const HttpHeaders& headers, std::string_view version) {
  if (version.empty()) return false;
  const auto found = headers.find(version.starts_with('"') ? "ETag" : "Last-Modified");
  return found && *found != version;
}

}  // namespace cairn::inline v0::object
