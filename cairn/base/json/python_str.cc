// python_str.cc -- Python's text of None, booleans, numbers, strings, lists and dicts.
#include <cairn/base/json/python_str.h>

#include <cairn/base/utf8.h>
#include <cairn/base/visible_text.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>

namespace cairn::inline v0 {
namespace {

struct PythonRange {
  std::uint32_t first, last;
};
// Characters beyond ASCII that Python's repr() escapes: controls, formats, surrogates, private use,
// separators. Unassigned characters, whose number changes with each version of Unicode, are shown.
constexpr std::array<PythonRange, 27> kPythonEscapes = {
    {{0x80, 0xa0},       {0xad, 0xad},       {0x600, 0x605},      {0x61c, 0x61c},
     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},      {0x8e2, 0x8e2},
     {0x1680, 0x1680},   {0x180e, 0x180e},   {0x2000, 0x200f},    {0x2028, 0x202f},
     {0x205f, 0x2064},   {0x2066, 0x206f},   {0x3000, 0x3000},    {0xd800, 0xf8ff},
     {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd},  {0x110cd, 0x110cd},
     {0x13430, 0x13438}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},  {0xe0001, 0xe0001},
     {0xe0020, 0xe007f}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd}}};

bool is_python_escaped(std::uint32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7f;
  return std::any_of(kPythonEscapes.begin(), kPythonEscapes.end(),
                     [&](PythonRange r) { return code >= r.first && code <= r.last; });
}

void append_python_escape(std::string& out, std::uint32_t code) {
  if (code == '\n' || code == '\r' || code == '\t')
    out += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
  else if (code < 0x100)
    append_hex(out, "\\x", code, 2);
  else if (code < 0x10000)
    append_hex(out, "\\u", code, 4);
  else
    append_hex(out, "\\U", code, 8);
}

// Single quotes, unless only these are in the text.
void append_python_repr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Character c = decode_utf8(text.substr(i));
    if (c.valid && is_python_escaped(c.code)) {
      append_python_escape(out, c.code);
    } else {
      if (text[i] == quote || text[i] == '\\') out += '\\';
      out += text.substr(i, c.length);
    }
    i += c.length;
  }
  out += quote;
}

struct PythonAppender {
  std::string& out;

  void operator()(std::nullptr_t /*null*/) const { out += "None"; }
  void operator()(bool value) const { out += value ? "True" : "False"; }
  void operator()(std::int64_t value) const { out += std::to_string(value); }
  void operator()(std::uint64_t value) const { out += std::to_string(value); }
  void operator()(double value) const {
    if (std::isfinite(value))
      out += to_text(Json(value), JsonStyle::kPython);
    else
      out += std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  }
  void operator()(const Json::BigInt& value) const {
    double number = 0;
    const char* end = value.digits.data() + value.digits.size();
    const auto read = std::from_chars(value.digits.data(), end, number);
    if (read.ec != std::errc()) number = std::numeric_limits<double>::infinity();
    (*this)(number);
  }
  void operator()(const std::string& value) const { append_python_repr(out, value); }
  void operator()(const JsonArray& values) const {
    const char* separator = "[";
    for (const Json& value : values) {
      out += separator;
      std::visit(*this, value.value());
      separator = ", ";
    }
    out += values.empty() ? "[]" : "]";
  }
  void operator()(const JsonObject& members) const {
    std::map<std::string_view, const Json*> sorted;
    for (const auto& [name, value] : members) sorted[name] = &value;
    const char* separator = "{";
    for (const auto& [name, value] : sorted) {
      out += separator;
      append_python_repr(out, name);
      out += ": ";
      std::visit(*this, value->value());
      separator = ", ";
    }
    out += sorted.empty() ? "{}" : "}";
  }
};

}  // namespace

std::string python_str(const Json& json) {
  if (const std::string* text = json.as_string()) return *text;
  std::string out;
  std::visit(PythonAppender{out}, json.value());
  return out;
}

}  // namespace cairn::inline v0
