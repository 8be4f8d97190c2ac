// regex_syntax.cc -- translates a Python regular expression to PCRE2's syntax in one pass.
// Constructs that only PCRE2 has (\Q, \K, recursion, POSIX classes, verbs) are an error or a
// literal here, as in Python. Groups and repeats are checked as Python does.

#include <cairn/tree/transform/regex_syntax.h>

#include <cairn/base/utf8.h>
#include <cairn/error.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

namespace cairn::inline v0 {
namespace {

std::string hex_escape(std::uint32_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  do digits.insert(digits.begin(), kDigits[value % 16]);
  while ((value /= 16) != 0);
  return "\\x{" + digits + "}";
}

constexpr std::string_view kFlags = "aimsuxL";
constexpr std::string_view kMostRepeats = "65535";  // PCRE2's limit

// Whether \d, \W, ... is a class of characters.
bool is_class_letter(char c) {
  return std::string_view("dDsSwW").find(c) != std::string_view::npos;
}
bool is_utf8_tail(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// The character that \a, \f, \n, ... denote.
std::optional<char> control_escape(char c) {
  constexpr std::string_view kNames = "afnrtv";
  constexpr std::string_view kValues = "\a\f\n\r\t\v";
  const std::size_t at = kNames.find(c);
  return at == std::string_view::npos ? std::nullopt : std::optional(kValues[at]);
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : p_(pattern) {}

  RegexSyntax parse() {
    while (at_ < p_.size()) {
      start_ = at_;
      item();
    }
    if (!open_.empty()) fail(open_.back().position, "missing ), unterminated subpattern");
    for (const Group& asked : asked_)
      if (asked.number > groups_)
        fail(asked.position, "invalid group reference " + std::to_string(asked.number));
    return std::move(out_);
  }

 private:
  // The kind of the last item, which a quantifier would apply to.
  enum class Last : std::uint8_t { kNothing, kAtom, kAnchor, kRepeat };
  struct Group {
    std::size_t position;
    std::size_t number;             // 0: it does not capture
    std::size_t branches_left = 0;  // how many more a '|' may begin; of conditions
    bool looks_behind = false;
    std::size_t groups_before = 0;  // number of capturing groups that begin before it
  };

  static constexpr std::size_t kMaxBranches = std::numeric_limits<std::size_t>::max();

  [[noreturn]] void fail(std::size_t byte, const std::string& why) const {
    fail_regex("regular expression", p_, byte, why);
  }
  [[nodiscard]] bool next_is(char c) const { return at_ < p_.size() && p_[at_] == c; }
  bool accept(std::string_view text) {
    if (p_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  void emit(std::string_view text) {
    out_.pcre += text;
    out_.origins.resize(out_.pcre.size(), start_);
  }

  void item() {
    const char c = p_[at_++];
    if (std::string_view("\\[](){}.^$*+?|").find(c) != std::string_view::npos && c != ']' &&
        c != '}')
      out_.literal = false;
    switch (c) {
      case '\\':
        return escape();
      case '[':
        return char_class();
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '|':
        return branch();
      case '^':
      case '$':
        emit(std::string_view(&c, 1));
        last_ = Last::kAnchor;
        return;
      case '*':
      case '+':
      case '?':
        return repeat(std::string(1, c));
      case '{':
        return braces();
      case '}':
      case ']':
        emit(c == '}' ? "\\}" : "\\]");
        break;
      default:
        emit(std::string_view(&c, 1));
    }
    last_ = Last::kAtom;
  }

  void branch() {
    if (!open_.empty() && open_.back().branches_left-- == 0)
      fail(start_, "conditional backref with more than two branches");
    emit("|");
    last_ = Last::kNothing;
  }

  void repeat(const std::string& quantifier) {
    if (last_ == Last::kNothing || last_ == Last::kAnchor) fail(start_, "nothing to repeat");
    if (last_ == Last::kRepeat) fail(start_, "multiple repeat");
    emit(quantifier);
    if (accept("?"))
      emit("?");
    else if (accept("+"))
      emit("+");
    last_ = Last::kRepeat;
  }

  static bool is_less(std::string_view a, std::string_view b) {
    a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
    b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  }

  // {m}, {m,}, {,n}, {m,n}; anything else is literal text.
  void braces() {
    const std::size_t back = at_;
    const auto digits = [&] {
      const std::size_t first = at_;
      while (at_ < p_.size() && is_digit(p_[at_])) ++at_;
      return std::string(p_.substr(first, at_ - first));
    };
    if (!next_is('}')) {
      const std::string low = digits();
      const bool comma = accept(",");
      const std::string high = comma ? digits() : low;
      if (accept("}")) {
        std::string quantifier = "{" + (low.empty() ? "0" : low);
        if (comma) quantifier += "," + high;
        if (is_less(kMostRepeats, low) || is_less(kMostRepeats, high))
          fail(start_, "the repetition number is too large; at most " + std::string(kMostRepeats) +
                           " is supported");
        if (!high.empty() && is_less(high, low))
          fail(start_ + 1, "min repeat greater than max repeat");
        return repeat(quantifier + "}");
      }
    }
    at_ = back;
    emit("\\{");
    last_ = Last::kAtom;
  }

  std::uint32_t hex(std::size_t count) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const char c = at_ < p_.size() ? p_[at_] : ' ';
      const char low = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
      if (!is_digit(c) && (low < 'a' || low > 'f'))
        fail(start_, "incomplete escape " + std::string(p_.substr(start_, at_ - start_)));
      value = value * 16 + static_cast<std::uint32_t>(is_digit(c) ? c - '0' : low - 'a' + 10);
      ++at_;
    }
    if (value > 0x10FFFF)
      fail(start_, "bad escape " + std::string(p_.substr(start_, at_ - start_)));
    if (value >= 0xD800 && value < 0xE000)
      fail(start_, "the escape is half of a surrogate pair, which is not supported here");
    return value;
  }

  // Parses \x41, \u0041, \U00000041, \n and similar escapes, which have one meaning everywhere. `c`
  // is the letter, which has been read.
  std::optional<std::uint32_t> character_escape(char c) {
    if (const auto control = control_escape(c)) return static_cast<std::uint32_t>(*control);
    if (c == 'x' || c == 'u' || c == 'U') return hex(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    if (c == 'N') fail(start_, "\\N{...} is not supported here; write the character itself");
    return std::nullopt;
  }

  // Parses an octal escape of at most three digits; the first one has been read.
  std::uint32_t octal(char first) {
    auto value = static_cast<std::uint32_t>(first - '0');
    for (int i = 1; i < 3 && at_ < p_.size() && is_octal(p_[at_]); ++i)
      value = value * 8 + static_cast<std::uint32_t>(p_[at_++] - '0');
    if (value > 0377) fail(start_, octal_range(p_.substr(start_, at_ - start_)));
    return value;
  }

  // An escaped character other than a letter or digit stands for itself.
  void refuse_letters(char c) const {
    if (is_letter(c) || is_digit(c)) fail(start_, std::string("bad escape \\") + c);
  }

  void escape() {
    if (at_ == p_.size()) fail(start_, "bad escape (end of pattern)");
    const char c = p_[at_++];
    last_ = Last::kAtom;
    if (c == 'A' || c == 'Z' || c == 'b' || c == 'B') {
      last_ = Last::kAnchor;
      // Python's \B does not match an empty string (before 3.14)
      if (c == 'B') return emit("(?:(?!\\A\\z)\\B)");
      return emit(c == 'Z' ? std::string("\\z") : std::string("\\") + c);
    }
    if (is_class_letter(c)) return emit(std::string("\\") + c);
    if (const auto value = character_escape(c)) return emit(hex_escape(*value));
    if (c == '0') return emit(hex_escape(octal(c)));
    if (is_digit(c)) return group_number(c);
    refuse_letters(c);
    // Characters beyond ASCII arrive byte by byte.
    if (static_cast<unsigned char>(c) < 0x80) emit("\\");
    emit(std::string_view(&c, 1));
  }

  // Parses \1 to \99, or three octal digits.
  void group_number(char c) {
    auto number = static_cast<std::size_t>(c - '0');
    if (at_ < p_.size() && is_digit(p_[at_])) {
      if (is_octal(c) && is_octal(p_[at_]) && at_ + 1 < p_.size() && is_octal(p_[at_ + 1]))
        return emit(hex_escape(octal(c)));
      number = number * 10 + static_cast<std::size_t>(p_[at_++] - '0');
    }
    if (number > groups_) fail(start_ + 1, "invalid group reference " + std::to_string(number));
    check_closed(number, start_);
    emit("\\g{" + std::to_string(number) + "}");
  }
  void check_closed(std::size_t number, std::size_t reference) const {
    for (const Group& group : open_)
      if (group.number == number) fail(reference, "cannot refer to an open group");
    const auto behind = std::find_if(open_.begin(), open_.end(),
                                     [](const Group& group) { return group.looks_behind; });
    if (behind != open_.end() && number > behind->groups_before)
      fail(at_, "cannot refer to group defined in the same lookbehind subpattern");
  }

  // What stands at one place in [...]: a character, or a class like \d.
  struct SetItem {
    std::size_t begin = 0;                // byte of the pattern
    std::string pcre;                     // its form in PCRE2's syntax
    std::optional<std::uint32_t> single;  // the character; none for a class
  };

  void char_class() {
    const std::size_t begin = start_;
    emit("[");
    if (accept("^")) emit("^");
    const std::size_t first = at_;
    while (!next_is(']') || at_ == first) {
      const SetItem from = set_item(begin);
      emit(from.pcre);
      if (!next_is('-') || p_.substr(at_ + 1, 1) == "]") continue;
      ++at_;
      const SetItem to = set_item(begin);
      if (!from.single || !to.single || *to.single < *from.single) fail_range(from, to);
      emit("-" + to.pcre);
    }
    ++at_;
    emit("]");
    last_ = Last::kAtom;
  }

  SetItem set_item(std::size_t set) {
    if (at_ == p_.size()) fail(set, "unterminated character set");
    start_ = at_;
    SetItem item{.begin = start_};
    const char c = p_[at_];
    if (c == '\\' && at_ + 1 < p_.size() && is_class_letter(p_[at_ + 1])) {
      item.pcre = p_.substr(at_, 2);
      at_ += 2;
      return item;
    }
    item.single = c == '\\' ? set_escape() : character();
    item.pcre = hex_escape(*item.single);
    return item;
  }

  // Parses what follows a backslash in [...] and is not a class.
  std::uint32_t set_escape() {
    ++at_;
    if (at_ == p_.size()) fail(start_, "bad escape (end of pattern)");
    const char c = p_[at_];
    if (static_cast<unsigned char>(c) >= 0x80) return character();
    ++at_;
    if (c == 'b') return '\b';
    if (const auto value = character_escape(c)) return *value;
    if (is_octal(c)) return octal(c);
    refuse_letters(c);
    return static_cast<std::uint32_t>(c);
  }

  std::uint32_t character() {
    const Utf8Character c = decode_utf8(p_.substr(at_));
    at_ += c.length;
    return c.code;
  }

  // Python names an escape by its first letter, and counts the position from the end.
  [[noreturn]] void fail_range(const SetItem& from, const SetItem& to) const {
    const std::string range = short_form(from) + "-" + short_form(to);
    std::size_t begin = at_;
    for (auto left = std::count_if(range.begin(), range.end(), std::not_fn(is_utf8_tail)); left > 0;
         --left) {
      --begin;
      while (is_utf8_tail(p_[begin])) --begin;
    }
    fail(begin, "bad character range " + range);
  }
  [[nodiscard]] std::string short_form(const SetItem& item) const {
    std::size_t end = item.begin + (p_[item.begin] == '\\' ? 2 : 1);
    while (end < p_.size() && is_utf8_tail(p_[end])) ++end;
    return std::string(p_.substr(item.begin, end - item.begin));
  }

  std::string name(char end) {
    const std::size_t first = at_;
    while (at_ < p_.size() && p_[at_] != end) ++at_;
    if (at_ == first) fail(first, "missing group name");
    if (at_ == p_.size()) fail(first, std::string("missing ") + end + ", unterminated name");
    std::string text(p_.substr(first, at_++ - first));
    if (!is_group_name(text))
      fail(first,
           "bad character in group name '" + text + "': expected ASCII letters, digits and '_'");
    return text;
  }

  void begin_group(const std::string& text, bool captures) {
    const bool looks_behind = text == "(?<=" || text == "(?<!";
    open_.push_back({start_, captures ? groups_ + 1 : 0, kMaxBranches, looks_behind, groups_});
    groups_ += captures ? 1 : 0;
    emit(text);
    last_ = Last::kNothing;
  }

  void open_group() {
    if (!accept("?")) return begin_group("(", true);
    if (accept("P<")) {
      const std::size_t first = at_;
      const std::string group = name('>');
      for (const auto& [known, number] : names_)
        if (known == group)
          fail(first, "redefinition of group name '" + group + "' as group " +
                          std::to_string(groups_ + 1) + "; was group " + std::to_string(number));
      names_.emplace_back(group, groups_ + 1);
      return begin_group("(?P<" + group + ">", true);
    }
    if (accept("P=")) {
      const std::size_t first = at_;
      const std::string group = name(')');
      check_closed(number_of(group, first), first);
      emit("(?P=" + group + ")");
      last_ = Last::kAtom;
      return;
    }
    for (const std::string_view plain : {":", "=", "!", "<=", "<!", ">"})
      if (accept(plain)) return begin_group("(?" + std::string(plain), false);
    if (accept("#")) {
      const std::size_t end = p_.find(')', at_);
      if (end == std::string_view::npos) fail(start_, "missing ), unterminated comment");
      at_ = end + 1;
      return;
    }
    if (accept("(")) return condition();
    flags();
  }
  [[nodiscard]] std::size_t number_of(const std::string& group, std::size_t reference) const {
    for (const auto& [known, number] : names_)
      if (known == group) return number;
    fail(reference, "unknown group name '" + group + "'");
  }

  // Parses (?(1)yes|no): whether group 1, which may come later, took part in the match.
  void condition() {
    const std::size_t first = at_;
    const std::size_t end = std::min(p_.find(')', at_), p_.size());
    const std::string_view text = p_.substr(at_, end - at_);
    std::size_t number = 0;
    if (end < p_.size() && !text.empty() && text.size() < 4 &&
        std::all_of(text.begin(), text.end(), is_digit)) {
      for (const char c : text) number = number * 10 + static_cast<std::size_t>(c - '0');
      if (number == 0) fail(first, "bad group number");
      at_ = end + 1;
    } else {
      number = number_of(name(')'), first);
    }
    asked_.push_back({.position = first, .number = number});
    begin_group("(?(" + std::to_string(number) + ")", false);
    open_.back().branches_left = 1;
  }

  // `first` is behind the "(?" of a group that is not a known one.
  [[noreturn]] void fail_extension(std::size_t first) const {
    std::size_t end = first;
    if (end < p_.size() && (p_[end] == 'P' || p_[end] == '<')) ++end;
    if (end < p_.size() && p_[end] == '\\') ++end;
    if (end == p_.size()) fail(end, "unexpected end of pattern");
    end += decode_utf8(p_.substr(end)).length;
    fail(start_ + 1, "unknown extension ?" + std::string(p_.substr(first, end - first)));
  }

  // Reads one flag. `otherwise`: what else could be here.
  char flag(const std::string& otherwise) {
    if (at_ == p_.size()) fail(at_, "missing " + otherwise);
    const char c = p_[at_];
    const bool letter = is_letter(c) || static_cast<unsigned char>(c) >= 0x80;
    if (kFlags.find(c) == std::string_view::npos)
      fail(at_, letter ? "unknown flag" : "missing " + otherwise);
    ++at_;
    return c;
  }
  std::string flags_to_turn_on() {
    std::string on;
    while (!next_is(')') && !next_is('-') && !next_is(':')) {
      on += flag("-, : or )");
      if (on.back() == 'L') fail(at_, "bad inline flags: cannot use 'L' flag with a str pattern");
      if (on.find('a') != std::string::npos && on.find('u') != std::string::npos)
        fail(at_, "bad inline flags: flags 'a', 'u' and 'L' are incompatible");
    }
    return on;
  }
  std::string flags_to_turn_off() {
    std::string off;
    do {
      off += flag(off.empty() ? "flag" : ":");
      if (std::string_view("auL").find(off.back()) != std::string_view::npos)
        fail(at_, "bad inline flags: cannot turn off flags 'a', 'u' and 'L'");
    } while (!accept(":"));
    return off;
  }

  // Parses (?i) at the start of the expression, or (?i-s:...) anywhere.
  void flags() {
    const std::size_t first = at_;
    if (at_ == p_.size() || (p_[at_] != '-' && kFlags.find(p_[at_]) == std::string_view::npos))
      fail_extension(first);
    const std::string on = flags_to_turn_on();
    const char end = p_[at_++];
    const std::string off = end == '-' ? flags_to_turn_off() : "";
    if (on.find_first_of(off) != std::string::npos)
      fail(at_ - 1, "bad inline flags: flag turned on and off");
    if (end == ')' && !out_.pcre.empty())
      fail(start_, "global flags not at the start of the expression");
    if ((on + off).find('x') != std::string::npos) fail(first, "the flag x is not supported here");
    if (end == ')') return turn_on(on);
    if (on.find_first_of("au") != std::string::npos)
      fail(first,
           "only the flags i, m and s are supported for a group, as in  (?i:...) and (?i-s:...)");
    begin_group("(?" + on + (off.empty() ? "" : "-" + off) + ":", false);
  }
  void turn_on(const std::string& flags) {
    const auto has = [&](char c) { return flags.find(c) != std::string::npos; };
    out_.ignore_case |= has('i');
    out_.multi_line |= has('m');
    out_.dot_all |= has('s');
    out_.ascii |= has('a');
  }

  void close_group() {
    if (open_.empty()) fail(start_, "unbalanced parenthesis");
    open_.pop_back();
    emit(")");
    last_ = Last::kAtom;
  }

  std::string_view p_;
  std::size_t at_ = 0;
  std::size_t start_ = 0;  // of the current item
  Last last_ = Last::kNothing;
  std::size_t groups_ = 0;
  std::vector<Group> open_;
  std::vector<Group> asked_;  // groups that conditions refer to
  std::vector<std::pair<std::string, std::size_t>> names_;
  RegexSyntax out_;
};

}  // namespace

bool is_group_name(std::string_view text) {
  return !text.empty() && !is_digit(text[0]) && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '_';
  });
}

std::string octal_range(std::string_view escape) {
  return "octal escape value " + std::string(escape) + " outside of range 0-0o377";
}

void fail_regex(std::string_view what, std::string_view text, std::size_t byte,
                const std::string& why) {
  const std::string_view before = text.substr(0, byte);
  const auto position = std::count_if(before.begin(), before.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  });
  throw Error(Code::kInvalidArgument, std::string(what) + " '" + std::string(text) + "': " + why +
                                          " at position " + std::to_string(position));
}

RegexSyntax parse_regex_syntax(std::string_view pattern) { return Parser(pattern).parse(); }

}  // namespace cairn::inline v0
