// http_redirect.h -- where an answer sends a client.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// The most redirects that are followed for one request.
inline constexpr int kMostRedirects = 5;

bool is_redirect(int status);

// The URL that `location`, the value of the header, means in an answer to a request for `base`:
// absolute, or relative as in RFC 3986. Its fragment is dropped. nullopt if it is not an http:// or
// https:// URL that can be requested: characters that are not percent-encoded, a user, more than
// 8 KiB.
std::optional<std::string> resolve_location(std::string_view base, std::string_view location);

// Throws unimplemented if a client must not go from one URL to the other: https:// to http://.
void check_redirect(std::string_view from, std::string_view to);

}  // namespace cairn::inline v0::object
