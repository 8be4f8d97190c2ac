// http_redirect.cc -- resolves the header Location.
#include <cairn/kvstore/object/http/http_redirect.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/kvstore/object/request/url.h>

#include <algorithm>
#include <vector>

namespace cairn::inline v0::object {
namespace {

constexpr std::size_t kLongestLocation = std::size_t{8} << 10U;

bool has_http_scheme(std::string_view url) {
  return url.starts_with("http://") || url.starts_with("https://");
}

// Removes "." and ".." from a path that begins with '/', as RFC 3986 does.
std::string without_dots(std::string_view path) {
  std::vector<std::string_view> kept;
  const std::vector<std::string_view> parts = split(path.substr(1), '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    const bool is_dot = parts[i] == "." || parts[i] == "..";
    if (parts[i] == ".." && !kept.empty()) kept.pop_back();
    if (!is_dot) kept.push_back(parts[i]);
    if (is_dot && is_last) kept.emplace_back();
  }
  std::string text;
  for (const std::string_view part : kept) text.append("/").append(part);
  return text.empty() ? "/" : text;
}

// A location without a host.
std::string resolve_path(std::string_view base, std::string_view location) {
  const std::string origin(origin_of(base));
  const std::string_view base_path =
      base.substr(origin.size(), base.find('?') - std::min(origin.size(), base.find('?')));
  const std::size_t query = std::min(location.find('?'), location.size());
  std::string path(location.substr(0, query));
  if (path.empty()) return origin + std::string(base_path) + std::string(location);
  if (!path.starts_with('/')) {
    const std::string_view folder = folder_prefix(base_path);
    path = (folder.empty() ? "/" : std::string(folder)) + path;
  }
  return origin + without_dots(path) + std::string(location.substr(query));
}

bool can_be_requested(std::string_view url) {
  const bool is_visible =
      std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c <= '~'; });
  const std::string_view origin = origin_of(url);
  return is_visible && has_http_scheme(url) && !origin.empty() &&
         origin.find_first_of("@\\\"<>") == std::string_view::npos &&
         url.size() <= kLongestLocation;
}

}  // namespace

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::optional<std::string> resolve_location(std::string_view base, std::string_view location) {
  if (location.empty() || location.size() > kLongestLocation) return std::nullopt;
  location = location.substr(0, location.find('#'));
  base = base.substr(0, base.find('#'));
  std::string url;
  const std::size_t colon = location.find(':');
  if (location.starts_with("//"))
    url = std::string(base.substr(0, base.find(':') + 1)).append(location);
  else if (colon != std::string_view::npos && colon < location.find_first_of("/?"))
    url = location;
  else
    url = resolve_path(base, location);
  return can_be_requested(url) ? std::optional(url) : std::nullopt;
}

void check_redirect(std::string_view from, std::string_view to) {
  if (from.starts_with("https://") && !to.starts_with("https://"))
    throw Error(Code::kUnimplemented,
                "the server redirects from https:// to http://, which is not followed");
}

}  // namespace cairn::inline v0::object
