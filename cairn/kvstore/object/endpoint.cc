#include <cairn/kvstore/object/endpoint.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/object/request/url.h>

#include <algorithm>

namespace cairn::inline v0::object {

std::string checked_endpoint(std::string endpoint, std::string_view source) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool has_scheme = endpoint.starts_with("http://") || endpoint.starts_with("https://");
  const bool is_plain = std::all_of(endpoint.begin(), endpoint.end(), [](char c) {
    return c > ' ' && c <= '~' && c != '?' && c != '#' && c != '@';
  });
  if (!has_scheme || !is_plain || origin_of(endpoint).empty())
    invalid_argument(std::string(source) + " is not a URL of the form http://host:port");
  return endpoint;
}

}  // namespace cairn::inline v0::object
