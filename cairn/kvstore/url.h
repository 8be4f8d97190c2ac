// url.h -- the path of a file URL.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// "file:///a%20b" -> "/a b". invalid_argument for a URL that has no absolute path, or characters
// that a URL cannot have.
std::string file_url_path(std::string_view url);
// "a%20b" -> "a b"; `url` is the whole, for messages.
std::string percent_decoded(std::string_view text, std::string_view url);

}  // namespace cairn
