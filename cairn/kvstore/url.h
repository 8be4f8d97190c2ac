// url.h -- the parts of a URL.
#pragma once

#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Returns the scheme of "scheme://...", in lower case; "" if `url` is a plain path.
std::string url_scheme(std::string_view url);
// Returns the path of a file URL: "file:///a%20b" -> "/a b". Throws invalid_argument if the URL has
// no absolute path or contains characters that are not allowed in a URL.
std::string file_url_path(std::string_view url);
// Decodes the percent escapes: "a%20b" -> "a b". `url` is the whole URL, for messages.
std::string percent_decoded(std::string_view text, std::string_view url);

}  // namespace cairn::inline v0
