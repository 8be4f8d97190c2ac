// regex_syntax.h -- Python's regular expressions in the words of PCRE2: what either has alone is
// spelled out, or refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

struct RegexSyntax {
  std::string pcre;                  // the same expression for PCRE2
  std::vector<std::size_t> origins;  // of each byte of it: the byte of the pattern it comes from
  // flags at the beginning: (?i), (?m), (?s), (?a)
  bool ignore_case = false, multi_line = false, dot_all = false, ascii = false;
  // nothing but characters that stand for themselves
  bool literal = true;
};
// Throws invalid_argument. Not supported, and said so: \N{...}, (?x), (?L), (?a:...), group names
// beyond ASCII.
RegexSyntax parse_regex_syntax(std::string_view pattern);

// Of a pattern or template; throws.
[[noreturn]] void fail_regex(std::string_view what, std::string_view text, std::size_t byte,
                             const std::string& why);

}  // namespace cairn
