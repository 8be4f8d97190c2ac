// http.cc -- finds header fields.
#include <cairn/kvstore/object/transport/http.h>

#include <algorithm>

namespace cairn::inline v0::object {
namespace {

// Without the locale, whose letters are not those of HTTP.
char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_field_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return ascii_lower(x) == ascii_lower(y); });
}

}  // namespace

std::optional<std::string_view> HttpHeaders::find(std::string_view name) const {
  for (const auto& field : fields_)
    if (same_field_name(field.first, name)) return field.second;
  return std::nullopt;
}

}  // namespace cairn::inline v0::object
