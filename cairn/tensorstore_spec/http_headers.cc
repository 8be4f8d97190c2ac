// http_headers.cc -- checks the header fields of a spec.
#include <cairn/tensorstore_spec/http_headers.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace cairn::inline v0::tensorstore_spec {
namespace {

constexpr std::string_view kBlanks = " \t";
// Fields that say which bytes of which version Cairn wants, and how the message is sent.
constexpr std::string_view kOwnFields[] = {"accept-encoding",
                                           "connection",
                                           "content-length",
                                           "expect",
                                           "host",
                                           "if-match",
                                           "if-none-match",
                                           "if-modified-since",
                                           "if-range",
                                           "if-unmodified-since",
                                           "range",
                                           "te",
                                           "transfer-encoding",
                                           "upgrade"};

// A character of a token (RFC 9110).
bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_value_character(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text.remove_suffix(text.size() - (text.find_last_not_of(kBlanks) + 1));
  return text;
}

void add_field(const Json& field, const std::string& pointer, object::HttpHeaders& headers) {
  const std::string* text = field.as_string();
  const std::size_t colon = text ? text->find(':') : std::string::npos;
  if (colon == std::string::npos) refuse(pointer, "expected a string \"Name: value\"");
  const std::string name = text->substr(0, colon);
  const std::string_view value = trimmed(std::string_view(*text).substr(colon + 1));
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_name_character))
    refuse(pointer, "is not the name of a header field before its \":\"");
  if (value.empty() || !std::all_of(value.begin(), value.end(), is_value_character))
    refuse(pointer, "the value of a header field is empty or has control characters");
  if (std::ranges::find(kOwnFields, lower_case(name)) != std::end(kOwnFields))
    refuse(pointer, "Cairn sets the header field " + name + " itself", Code::kUnimplemented);
  headers.add(name, std::string(value));
}

}  // namespace

object::HttpHeaders parse_http_headers(Members& members) {
  object::HttpHeaders headers;
  const Json* list = members.take("headers");
  if (!list) return headers;
  if (!list->as_array()) refuse(members.pointer("headers"), "expected a list of strings");
  std::size_t n = 0;
  for (const Json& field : *list->as_array())
    add_field(field, members.pointer("headers") + "/" + std::to_string(n++), headers);
  return headers;
}

}  // namespace cairn::inline v0::tensorstore_spec
