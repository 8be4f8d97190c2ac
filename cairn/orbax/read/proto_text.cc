// proto_text.cc -- splits a protocol buffer's text into tokens, and checks their order.
#include <cairn/orbax/read/proto_text.h>

#include <cairn/base/utf8.h>
#include <cairn/orbax/read/proto_number.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_decimal(char c) { return c >= '0' && c <= '9'; }
// The characters that go on a name or a number. Those of numbers may also be '.'.
constexpr bool is_word(char c) { return is_letter(c) || is_decimal(c) || c == '+' || c == '-'; }
constexpr bool is_octal(char c) { return c >= '0' && c <= '7'; }
constexpr bool is_hex(char c) {
  return is_decimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
constexpr bool is_quote(char c) { return c == '"' || c == '\''; }
// Python opens the file with universal newlines.
constexpr bool is_newline(char c) { return c == '\n' || c == '\r'; }

// White space of Unicode, which Python's tokenizer skips.
bool is_space(std::uint32_t code) {
  return code == ' ' || (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f) ||
         code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

// The length of the escape sequence at the start of `text`, which begins with a backslash; 0 if it
// is not one. Characters without a meaning after a backslash stay as they are.
std::size_t escape_length(std::string_view text) {
  const auto digits = [&](std::size_t from, std::size_t most, bool (*is_digit)(char)) {
    std::size_t n = 0;
    while (n < most && from + n < text.size() && is_digit(text[from + n])) ++n;
    return n;
  };
  const auto value = [&](std::size_t count, unsigned base) {
    std::uint32_t code = 0;
    for (const char c : text.substr(base == 8 ? 1 : 2, count))
      code =
          code * base + static_cast<std::uint32_t>(is_decimal(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    return code;
  };
  if (text.size() < 2) return 0;
  const char c = text[1];
  if (is_octal(c)) {
    const std::size_t count = digits(1, 3, is_octal);
    return value(count, 8) > 0xff ? 0 : 1 + count;
  }
  if (c == 'x') {
    const std::size_t count = digits(2, 2, is_hex);
    return count == 0 ? 0 : 2 + count;
  }
  if (c == 'u' || c == 'U') {
    const std::size_t wanted = c == 'u' ? 4 : 8;
    if (digits(2, wanted, is_hex) < wanted) return 0;
    const std::uint32_t code = value(wanted, 16);
    return code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : 2 + wanted;
  }
  if (c == 'N') {  // the name of a character
    const std::size_t end = text.find('}');
    return text.size() > 2 && text[2] == '{' && end != std::string_view::npos ? end + 1 : 0;
  }
  return 2;
}

// A token is "" at the end, else a name, a number, a string with its quotes, or one character.
class ProtoTextCheck {
 public:
  explicit ProtoTextCheck(std::string_view text) : text_(text) {}

  std::optional<ProtoTextFault> run() {
    if (const std::size_t bad = find_invalid_utf8(text_); bad != text_.size())
      return ProtoTextFault{bad, "is not UTF-8"};
    bool good = next();
    while (good && !(open_.empty() && token_.empty())) good = step();
    return fault_;
  }

 private:
  // Reports a fault at the token. Returns false.
  bool fail(std::string message) { return fail_at(start_, std::move(message)); }
  bool fail_at(std::size_t offset, std::string message) {
    fault_ = {offset, std::move(message)};
    return false;
  }
  bool fail_to_find(const std::string& wanted) {
    return fail("expected " + wanted +
                (token_.empty() ? ", found the end of the text"
                                : ", found '" + std::string(token_.substr(0, 40)) + "'"));
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const Utf8Character c = decode_utf8(text_.substr(at_));
      if (c.code == '#')
        while (at_ < text_.size() && !is_newline(text_[at_])) ++at_;
      else if (is_space(c.code))
        at_ += c.length;
      else
        return;
    }
  }

  // Goes to the next token.
  bool next() {
    skip_space();
    start_ = at_;
    token_ = {};
    if (at_ == text_.size()) return true;
    const char c = text_[at_];
    if (is_quote(c)) return next_string(c);
    const bool fraction = c == '.' && at_ + 1 < text_.size() && is_decimal(text_[at_ + 1]);
    if (is_letter(c)) {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    } else if (is_word(c) || fraction) {
      while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')) ++at_;
    } else {
      at_ += decode_utf8(text_.substr(at_)).length;
    }
    token_ = text_.substr(start_, at_ - start_);
    return true;
  }

  bool next_string(char quote) {
    for (++at_; at_ < text_.size() && !is_newline(text_[at_]);) {
      if (text_[at_] == quote) {
        ++at_;
        token_ = text_.substr(start_, at_ - start_);
        return true;
      }
      std::size_t length = 1;
      if (text_[at_] == '\\') {
        const std::size_t line_end = std::min(text_.find_first_of("\r\n", at_), text_.size());
        length = escape_length(text_.substr(at_, line_end - at_));
        if (length == 0) return fail_at(at_, "the string has an invalid escape sequence");
      }
      at_ += length;
    }
    return fail("the string has no closing quote");
  }

  [[nodiscard]] bool is(char c) const { return token_.size() == 1 && token_.front() == c; }
  [[nodiscard]] bool is_name() const { return !token_.empty() && is_letter(token_.front()); }

  // Checks a field, or an element of a list.
  bool step() {
    const char closer = open_.empty() ? '\0' : open_.back();
    if (closer == ']') return element();
    if (closer != '\0' && (is('}') || is('>'))) {
      if (!is(closer)) return fail_to_find("'" + std::string(1, closer) + "'");
      return close();
    }
    if (closer != '\0' && token_.empty()) return fail_to_find("'" + std::string(1, closer) + "'");
    return field();
  }

  // Goes on after the end of a message or a list.
  bool close() {
    open_.pop_back();
    return next() && after_value();
  }
  // In a message a comma or semicolon may follow. In a list, a comma or its end must.
  bool after_value() {
    if (open_.empty() || open_.back() != ']') return is(',') || is(';') ? next() : true;
    if (is(']')) return close();
    if (!is(',')) return fail_to_find("',' or ']'");
    return next();
  }

  bool field() {
    if (is('[')) {
      if (!type_name()) return false;
    } else if (!is_name() && !(!token_.empty() && is_decimal(token_.front()))) {
      return fail_to_find("the name of a field");
    }
    if (!next()) return false;
    const bool colon = is(':');
    if (colon && !next()) return false;
    if (is('{') || is('<')) return open();
    if (!colon) return fail_to_find("':' or '{'");
    if (!is('[')) return value() && after_value();
    open_.push_back(']');
    return next() && (is(']') ? close() : true);
  }

  bool element() {
    if (is('{') || is('<')) return open();
    return value() && after_value();
  }

  bool open() {
    open_.push_back(is('{') ? '}' : '>');
    return next();
  }

  // The name of an extension, a.b.c, or the URL of an Any, host/a.b.c: ends at the ']'.
  bool type_name() {
    bool is_host = false;  // the tokens since the last '/' are not a name, so a '/' must follow
    bool wants_name = true;
    for (std::size_t part = 0; next(); ++part) {
      const bool in_order = wants_name ? is_name() : is('.');
      if (is(']')) {
        if (wants_name) return fail_to_find("the name of a type");
        return !is_host || fail_to_find("'/' and the name of a type");
      }
      if (part > 0 && is('/')) {
        is_host = false;
        wants_name = true;
      } else if (in_order) {
        wants_name = !wants_name;
      } else if (part > 0 && is_in_url()) {
        is_host = true;
      } else {
        return fail_to_find(wants_name ? "the name of a type" : "']'");
      }
    }
    return false;
  }
  // Whether the token can be part of a URL's host.
  [[nodiscard]] bool is_in_url() const {
    if (token_.size() > 1) return !is_quote(token_.front());
    return !token_.empty() && is_url_character(token_.front());
  }
  static bool is_url_character(char c) {
    return is_word(c) || std::string_view("/.~!$&()*,;=%").find(c) != std::string_view::npos;
  }

  // A string of one or more parts, a name or a number. Goes to the token after it.
  bool value() {
    if (!token_.empty() && is_quote(token_.front())) {
      while (!token_.empty() && is_quote(token_.front()))
        if (!next()) return false;
      return true;
    }
    if (!is_name() && !is_proto_number(token_)) return fail_to_find("a value");
    return next();
  }

  std::string_view text_;
  std::size_t at_ = 0;     // after the token
  std::size_t start_ = 0;  // of the token
  std::string_view token_;
  std::string open_;  // what closes the messages and lists around the token: '}', '>' or ']'
  std::optional<ProtoTextFault> fault_;
};

}  // namespace

std::optional<ProtoTextFault> find_proto_text_fault(std::string_view text) {
  return ProtoTextCheck(text).run();
}

}  // namespace cairn::inline v0::orbax
