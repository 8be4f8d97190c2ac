// regex_syntax.h -- translates Python's regular expressions to PCRE2's syntax. Constructs that
// differ between the two are spelled out or refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// A translated pattern.
struct RegexSyntax {
  std::string pcre;  // the same expression in PCRE2's syntax
  // for each byte of `pcre`: the byte of the pattern it comes from
  std::vector<std::size_t> origins;
  // flags at the start of the pattern: (?i), (?m), (?s), (?a)
  bool ignore_case = false, multi_line = false, dot_all = false, ascii = false;
  // every character stands for itself
  bool literal = true;
};
// Translates a pattern. Throws invalid_argument for a bad one, and for unsupported constructs:
// \N{...}, (?x), (?L), (?a:...), group names beyond ASCII.
RegexSyntax parse_regex_syntax(std::string_view pattern);

// Digits and letters of patterns and templates are those of ASCII.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_octal(char c) { return c >= '0' && c <= '7'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
// Whether a group can have this name.
bool is_group_name(std::string_view text);

// The reason to refuse an octal escape of three digits, in Python's words.
std::string octal_range(std::string_view escape);

// Throws invalid_argument for the pattern or template `text` (`what` tells which), with the
// position of `byte` and the reason. Reasons and positions are those of Python 3.11.
[[noreturn]] void fail_regex(std::string_view what, std::string_view text, std::size_t byte,
                             const std::string& why);

}  // namespace cairn::inline v0
