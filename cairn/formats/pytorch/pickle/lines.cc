#include <cairn/formats/pytorch/pickle/lines.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace cairn::inline v0::pickle {
namespace {

// The number that all of `digits` are; nullopt for other text, and for one that does not fit.
template <class T>
std::optional<T> number_of(std::string_view digits, int base = 10) {
  T number{};
  const char* const end = digits.data() + digits.size();
  const auto [stop, status] = std::from_chars(digits.data(), end, number, base);
  return status == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

bool are_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Value integer_of(PickleBuilder& builder, std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (!are_digits(digits)) data_loss("an integer has other characters than digits");
  if (const auto number = number_of<std::int64_t>(text)) return builder.number(Kind::kInt, *number);
  return builder.own_bytes(Kind::kLongText, text);
}

// The character that stands for \c in a string; nullopt if it has no such short form.
std::optional<char> short_escape(char c) {
  constexpr std::string_view kNames = "\\'\"abfnrtv", kCharacters = "\\'\"\a\b\f\n\r\t\v";
  const std::size_t at = kNames.find(c);
  return at == std::string_view::npos ? std::nullopt : std::optional(kCharacters[at]);
}

}  // namespace

Value parse_int_line(PickleBuilder& builder, std::string_view line) {
  if (line == "00") return kFalseValue;
  if (line == "01") return kTrueValue;
  return integer_of(builder, line);
}

Value parse_long_line(PickleBuilder& builder, std::string_view line) {
  if (line.ends_with('L')) line.remove_suffix(1);
  return integer_of(builder, line);
}

Value parse_float_line(PickleBuilder& builder, std::string_view line) {
  double number = 0;
  const char* const end = line.data() + line.size();
  const auto [stop, status] = std::from_chars(line.data(), end, number);
  if (status != std::errc() || stop != end) data_loss("a number is none");
  return builder.real(number);
}

std::string unquoted(std::string_view line) {
  const bool is_quoted = line.size() >= 2 && line.front() == line.back() &&
                         (line.front() == '\'' || line.front() == '"');
  if (!is_quoted) data_loss("a string is not quoted");
  const std::string_view text = line.substr(1, line.size() - 2);
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
      continue;
    }
    if (++i == text.size()) data_loss("a string ends with a backslash");
    if (const auto character = short_escape(text[i])) {
      bytes += *character;
      continue;
    }
    const std::string_view rest = text.substr(i);
    const std::size_t octal = std::min(rest.find_first_not_of("01234567"), rest.size());
    const bool is_hex = rest.starts_with('x') && rest.size() >= 3;
    const std::string_view digits =
        is_hex ? rest.substr(1, 2) : rest.substr(0, std::min<std::size_t>(octal, 3));
    const auto code = number_of<unsigned>(digits, is_hex ? 16 : 8);
    if (code) {
      bytes += static_cast<char>(*code);
      i += digits.size() - (is_hex ? 0 : 1);
    } else {
      bytes.append("\\").append(1, text[i]);  // as Python: not an escape
    }
  }
  return bytes;
}

std::string without_unicode_escapes(std::string_view line) {
  std::string text;
  text.reserve(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
    const std::string_view rest = line.substr(i);
    const std::size_t digits = rest.starts_with("\\u") ? 4 : rest.starts_with("\\U") ? 8 : 0;
    if (digits == 0) {
      append_utf8(text, static_cast<unsigned char>(line[i]));
      continue;
    }
    const auto code = rest.size() < 2 + digits
                          ? std::nullopt
                          : number_of<std::uint32_t>(rest.substr(2, digits), 16);
    if (!code || *code > 0x10ffff) data_loss("an escape in a text is damaged");
    append_utf8(text, *code);
    i += 1 + digits;
  }
  return text;
}

std::uint64_t parse_memo_line(std::string_view line) {
  const auto number = number_of<std::uint64_t>(line);
  if (!number) data_loss("the number of a memo is damaged");
  return *number;
}

bool is_python_utf8(std::string_view text) {
  for (;;) {
    text.remove_prefix(find_invalid_utf8(text));
    if (text.empty()) return true;
    const bool is_surrogate = text.size() >= 3 && text[0] == '\xed' && (text[1] & 0xe0) == 0xa0 &&
                              (text[2] & 0xc0) == 0x80;
    if (!is_surrogate) return false;
    text.remove_prefix(3);
  }
}

}  // namespace cairn::inline v0::pickle
