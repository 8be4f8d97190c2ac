// regex_template.cc -- "layers/\1/\g<name>": expands templates with the matched groups, as Python's
// Match.expand does.
#include <cairn/tree/transform/regex.h>
#include <cairn/tree/transform/regex_syntax.h>

#include <cairn/base/utf8.h>
#include <cairn/error.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

class Expander {
 public:
  Expander(std::string_view text, const Regex::Groups& groups,
           const std::vector<std::pair<std::string, std::size_t>>& names)
      : t_(text), groups_(groups), names_(names) {}

  std::string expand() {
    while (at_ < t_.size()) {
      start_ = at_;
      if (t_[at_++] != '\\')
        out_ += t_[start_];
      else
        escape();
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::size_t byte, const std::string& why) const {
    fail_regex("template", t_, byte, why);
  }

  // `first`: where the number or name begins.
  void group(std::size_t number, std::size_t first) {
    if (number >= groups_.size()) fail(first, "invalid group reference " + std::to_string(number));
    if (groups_[number]) out_ += *groups_[number];
  }

  void escape() {
    if (at_ == t_.size()) fail(start_, "bad escape (end of pattern)");
    const char c = t_[at_++];
    if (c == 'g') return named();
    if (c == '0') return octal(2);
    if (is_digit(c)) return numbered(c);
    constexpr std::string_view kNames = "abfnrtv\\";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\";
    if (const std::size_t known = kNames.find(c); known != std::string_view::npos) {
      out_ += kValues[known];
      return;
    }
    if (is_letter(c)) fail(start_, std::string("bad escape \\") + c);
    out_ += '\\';  // any other character stands for itself, and keeps its backslash
    out_ += c;
  }

  // Parses up to `more` further octal digits; the first one is at at_ - 1.
  void octal(std::size_t more) {
    std::uint32_t value = static_cast<std::uint32_t>(t_[at_ - 1] - '0');
    for (; more > 0 && at_ < t_.size() && is_octal(t_[at_]); --more)
      value = value * 8 + static_cast<std::uint32_t>(t_[at_++] - '0');
    if (value > 0377) fail(start_, octal_range(t_.substr(start_, at_ - start_)));
    append_utf8(out_, value);
  }

  void numbered(char c) {
    auto number = static_cast<std::size_t>(c - '0');
    if (at_ < t_.size() && is_digit(t_[at_])) {
      if (is_octal(c) && is_octal(t_[at_]) && at_ + 1 < t_.size() && is_octal(t_[at_ + 1]))
        return octal(2);
      number = number * 10 + static_cast<std::size_t>(t_[at_++] - '0');
    }
    group(number, start_ + 1);
  }

  // \g<1> or \g<name>
  void named() {
    if (at_ == t_.size() || t_[at_] != '<') fail(at_, "missing <");
    const std::size_t first = ++at_;
    const std::size_t end = std::min(t_.find('>', first), t_.size());
    const std::string name(t_.substr(first, end - first));
    if (name.empty()) fail(first, "missing group name");
    if (end == t_.size()) fail(first, "missing >, unterminated name");
    at_ = end + 1;
    if (std::all_of(name.begin(), name.end(), is_digit)) {
      if (name.size() > 4) fail(first, "invalid group reference " + name);
      return group(std::stoul(name), first);
    }
    if (!is_group_name(name)) fail(first, "bad character in group name '" + name + "'");
    for (const auto& [known, number] : names_)
      if (known == name) return group(number, first);
    fail(first, "unknown group name '" + name + "'");
  }

  std::string_view t_;
  const Regex::Groups& groups_;
  const std::vector<std::pair<std::string, std::size_t>>& names_;
  std::size_t at_ = 0;
  std::size_t start_ = 0;  // of the current escape
  std::string out_;
};

}  // namespace

std::string Regex::expand(std::string_view text, const Groups& groups) const {
  return Expander(text, groups, names_).expand();
}

}  // namespace cairn::inline v0
