// python_tuple.cc -- parses tuples of strings as Python's repr formats them.
#include <cairn/tree/metadata/python_tuple.h>

#include <cairn/base/utf8.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace cairn::inline v0 {
namespace {

class TupleParser {
 public:
  explicit TupleParser(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::string>> parse() {
    std::vector<std::string> items;
    if (!accept("(")) return std::nullopt;
    do {
      if (items.empty() && text_ == ")") break;
      if (!string(items.emplace_back())) return std::nullopt;
    } while (accept(", "));
    if (items.size() == 1 && !accept(",")) return std::nullopt;
    return text_ == ")" ? std::optional(std::move(items)) : std::nullopt;
  }

 private:
  bool accept(std::string_view next) {
    if (!text_.starts_with(next)) return false;
    text_.remove_prefix(next.size());
    return true;
  }

  bool string(std::string& out) {
    const std::string_view quote = text_.substr(0, 1);
    if (quote != "'" && quote != "\"") return false;
    text_.remove_prefix(1);
    while (!text_.empty()) {
      if (accept(quote)) return true;
      const std::size_t plain = std::min(text_.find_first_of("\\'\""), text_.size());
      if (plain == 0 && text_[0] == '\\') {
        if (!escape(out)) return false;
        continue;
      }
      const std::size_t size = std::max<std::size_t>(plain, 1);  // the other quote is plain, too
      out += text_.substr(0, size);
      text_.remove_prefix(size);
    }
    return false;
  }

  bool escape(std::string& out) {
    constexpr std::string_view kLetters = "nrt\\'\"";
    constexpr std::string_view kMeanings = "\n\r\t\\'\"";
    if (text_.size() < 2) return false;
    const char letter = text_[1];
    text_.remove_prefix(2);
    if (const std::size_t at = kLetters.find(letter); at != std::string_view::npos) {
      out += kMeanings[at];
      return true;
    }
    const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits == 0 || text_.size() < digits) return false;
    std::uint32_t code = 0;
    const char* end = text_.data() + digits;
    const auto [stopped, error] = std::from_chars(text_.data(), end, code, 16);
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    if (error != std::errc() || stopped != end || code > 0x10ffff || is_surrogate) return false;
    text_.remove_prefix(digits);
    append_utf8(out, code);
    return true;
  }

  std::string_view text_;  // what is left
};

}  // namespace

std::optional<std::vector<std::string>> parse_python_tuple(std::string_view text) {
  return TupleParser(text).parse();
}

bool has_keys_of(const std::vector<std::string>& tuple, const KeyPath& path) {
  return std::equal(tuple.begin(), tuple.end(), path.begin(), path.end(),
                    [](const std::string& text, const Key& key) { return text == key.text; });
}

}  // namespace cairn::inline v0
