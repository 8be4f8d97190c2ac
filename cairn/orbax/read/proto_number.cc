// proto_number.cc -- recognises integers and floating-point numbers.
#include <cairn/orbax/read/proto_number.h>

#include <cstdint>
#include <limits>
#include <string>

namespace cairn::inline v0::orbax {
namespace {

constexpr unsigned kNoDigit = 99;

unsigned digit_value(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? static_cast<unsigned>(lower - 'a') + 10 : kNoDigit;
}

// Removes digits of the base from the start, with single underscores between them. Returns whether
// there was one.
bool take_digits(std::string_view& text, unsigned base) {
  std::size_t n = 0;
  while (n < text.size() &&
         (digit_value(text[n]) < base || (text[n] == '_' && n > 0 && n + 1 < text.size() &&
                                          text[n - 1] != '_' && digit_value(text[n + 1]) < base)))
    ++n;
  text.remove_prefix(n);
  return n > 0;
}

bool take_sign(std::string_view& text) {
  const bool is_sign = text.starts_with('-') || text.starts_with('+');
  const bool negative = text.starts_with('-');
  if (is_sign) text.remove_prefix(1);
  return negative;
}

// Whether the digits, which may have underscores, fit 64 bits.
bool fits(std::string_view digits, unsigned base, bool negative) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t limit = negative ? std::uint64_t{1} << 63U : kMost;
  std::uint64_t value = 0;
  for (const char c : digits) {
    if (c == '_') continue;
    const unsigned digit = digit_value(c);
    if (value > (limit - digit) / base) return false;
    value = value * base + digit;
  }
  return true;
}

// An integer with a prefix, or C's octal. Other integers are also floating-point numbers.
bool is_prefixed_integer(std::string_view text) {
  const bool has_plus = text.starts_with('+');
  const bool negative = take_sign(text);
  if (text.size() < 2 || text.front() != '0') return false;
  unsigned base = 8;
  switch (text[1] | 0x20) {
    case 'x':
      base = 16;
      break;
    case 'o':
      break;
    case 'b':
      base = 2;
      break;
    default: {
      // C's octal has neither a plus nor underscores. Python reads only zeros otherwise.
      const bool zeros = text.find_first_not_of("0_") == std::string_view::npos;
      const bool plain = text.find('_') == std::string_view::npos && !has_plus;
      if (!zeros && !plain) return false;
      std::string_view rest = text;
      return take_digits(rest, 8) && rest.empty() && fits(text, 8, negative);
    }
  }
  text.remove_prefix(2);
  if (text.starts_with('_')) text.remove_prefix(1);
  std::string_view rest = text;
  return take_digits(rest, base) && rest.empty() && fits(text, base, negative);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return lower;
}

// What Python's float() takes.
bool is_python_float(std::string_view text) {
  (void)take_sign(text);
  const std::string lower = lower_case(text);
  if (lower == "inf" || lower == "infinity" || lower == "nan") return true;
  bool digits = take_digits(text, 10);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    digits = take_digits(text, 10) || digits;
  }
  if (!digits) return false;
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    (void)take_sign(text);
    if (!take_digits(text, 10)) return false;
  }
  return text.empty();
}

bool is_octal_float(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

}  // namespace

bool is_proto_number(std::string_view token) {
  if (is_prefixed_integer(token)) return true;
  if (is_octal_float(token)) return false;
  if (is_python_float(token)) return true;
  const std::string lower = lower_case(token);
  if (lower == "-inff" || lower == "-infinityf") return true;
  while (token.ends_with('f') || token.ends_with('F')) token.remove_suffix(1);
  return is_python_float(token);
}

}  // namespace cairn::inline v0::orbax
