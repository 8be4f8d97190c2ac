// write.cc -- writes JSON values as text, in the styles of TensorStore (kCompact) and Python
// (kPython), and in a style for people (kPretty).
#include <cairn/base/json/json.h>
#include <cairn/base/utf8.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace cairn::inline v0 {
namespace {

class Writer {
 public:
  explicit Writer(JsonStyle style) : style_(style) {}

  void write(const Json& json, std::size_t indent) {
    std::visit([&](const auto& v) { put(v, indent); }, json.value());
  }
  std::string take() { return std::move(out_); }

 private:
  void put(std::nullptr_t, std::size_t) { out_ += "null"; }
  void put(bool v, std::size_t) { out_ += v ? "true" : "false"; }
  void put(const Json::BigInt& v, std::size_t) { out_ += v.digits; }
  void put(const std::string& v, std::size_t) { string(v); }
  void put(std::int64_t v, std::size_t) { out_ += std::to_string(v); }
  void put(std::uint64_t v, std::size_t) { out_ += std::to_string(v); }
  void put(double v, std::size_t);
  void put(const JsonArray& v, std::size_t indent);
  void put(const JsonObject& v, std::size_t indent);

  void string(std::string_view v);
  void escape(std::uint32_t code);
  void comma(bool line_follows) {
    out_ += style_ == JsonStyle::kCompact || line_follows ? "," : ", ";
  }
  void line(std::size_t indent) { out_.append(1, '\n').append(2 * indent, ' '); }

  JsonStyle style_;
  std::string out_;
};

void Writer::put(double v, std::size_t) {
  if (std::isnan(v)) {
    out_ += "NaN";
    return;
  }
  if (std::isinf(v)) {
    out_ += v < 0 ? "-Infinity" : "Infinity";
    return;
  }
  // Python uses an exponent from 1e16, TensorStore from 1e15; both use one below 1e-4.
  const double exponent_from = style_ == JsonStyle::kPython ? 1e16 : 1e15;
  const double magnitude = std::fabs(v);
  const bool fixed = v == 0 || (magnitude >= 1e-4 && magnitude < exponent_from);
  std::array<char, 32> text;
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), v, format).ptr;
  const std::string_view digits(text.data(), static_cast<std::size_t>(end - text.data()));
  out_ += digits;
  if (fixed && digits.find('.') == std::string_view::npos) out_ += ".0";
}

void Writer::put(const JsonArray& v, std::size_t indent) {
  const bool lines =
      style_ == JsonStyle::kPretty &&
      std::any_of(v.begin(), v.end(), [](const Json& e) { return e.as_array() || e.as_object(); });
  out_ += '[';
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (i > 0) comma(lines);
    if (lines) line(indent + 1);
    write(v[i], indent + 1);
  }
  if (lines) line(indent);
  out_ += ']';
}

void Writer::put(const JsonObject& v, std::size_t indent) {
  const bool lines = style_ == JsonStyle::kPretty && !v.empty();
  out_ += '{';
  bool first = true;
  for (const auto& [key, value] : v) {
    if (!first) comma(lines);
    first = false;
    if (lines) line(indent + 1);
    string(key);
    out_ += style_ == JsonStyle::kCompact ? ":" : ": ";
    write(value, indent + 1);
  }
  if (lines) line(indent);
  out_ += '}';
}

void Writer::string(std::string_view v) {
  const auto is_plain = [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; };
  out_ += '"';
  for (std::size_t i = 0; i < v.size();) {
    const std::size_t run =
        static_cast<std::size_t>(std::find_if_not(v.begin() + i, v.end(), is_plain) - v.begin());
    out_ += v.substr(i, run - i);
    i = run;
    if (i == v.size()) break;
    const Utf8Character c = decode_utf8(v.substr(i));
    if (!c.valid)
      throw Error(Code::kInvalidArgument, "the string is not valid UTF-8 at byte " +
                                              std::to_string(i) + "; JSON requires UTF-8");
    const bool as_is = style_ != JsonStyle::kPython && c.code >= 0x7f;
    if (as_is)
      out_ += v.substr(i, c.length);
    else
      escape(c.code);
    i += c.length;
  }
  out_ += '"';
}

void Writer::escape(std::uint32_t code) {
  // Pairs of a character and the letter of its escape.
  constexpr std::string_view kNamed = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (std::size_t i = 0; i < kNamed.size(); i += 2) {
    if (code != static_cast<unsigned char>(kNamed[i])) continue;
    (out_ += '\\') += kNamed[i + 1];
    return;
  }
  if (code > 0xffff) {  // JSON writes a code point beyond 16 bits as a surrogate pair
    escape(0xd7c0 + (code >> 10U));
    code = 0xdc00 + (code & 0x3ffU);
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  out_ += "\\u";
  for (unsigned shift = 16; shift > 0; shift -= 4) out_ += kHex[code >> (shift - 4) & 0xfU];
}

}  // namespace

std::string to_text(const Json& json, JsonStyle style) {
  Writer writer(style);
  writer.write(json, 0);
  return writer.take();
}

}  // namespace cairn::inline v0
