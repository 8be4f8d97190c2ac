// percent.h -- percent-encoding of keys, as S3 signs it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// Whether '/' stays as it is (in the path of a URL) or becomes %2F (in a query, a copy source).
enum class Slash : unsigned char { kKept, kEncoded };

// Encodes every byte but letters, digits and "-._~": "a b/c" -> "a%20b/c".
std::string percent_encoded(std::string_view text, Slash slash);
// The reverse: "a%20b" -> "a b". With `plus_is_space`, "+" is a space, too: listings of some
// servers have it. nullopt if a '%' has no two hexadecimal digits behind it.
std::optional<std::string> percent_decoded_text(std::string_view text, bool plus_is_space = false);

}  // namespace cairn::inline v0::object
