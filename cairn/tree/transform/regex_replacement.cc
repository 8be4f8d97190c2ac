// regex_replacement.cc -- "model.layer$1": replacements for matches, with ECMAScript's syntax of
// dollar signs.
#include <cairn/tree/transform/regex.h>
#include <cairn/tree/transform/regex_syntax.h>

#include <string>
#include <utility>

namespace cairn::inline v0 {
namespace {

// A reference at the start of a text that begins with '$': its size in bytes (0 if it is not one)
// and its group.
struct Reference {
  std::size_t size = 0;
  std::size_t group = 0;
};

Reference parse_reference(std::string_view text, std::size_t groups) {
  if (text.size() < 2) return {};
  if (text[1] == '&') return {2, 0};
  if (!is_digit(text[1])) return {};
  const auto first = static_cast<std::size_t>(text[1] - '0');
  if (text.size() > 2 && is_digit(text[2])) {
    const std::size_t both = 10 * first + static_cast<std::size_t>(text[2] - '0');
    if (both > 0 && both <= groups) return {3, both};
  }
  return first > 0 ? Reference{2, first} : Reference{};
}

}  // namespace

Replacement::Replacement(std::string_view text, const Regex& regex) {
  const std::size_t groups = regex.group_count();
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const Reference reference = rest.front() == '$' ? parse_reference(rest, groups) : Reference{};
    if (reference.group > groups)
      fail_regex("replacement", text, at,
                 "the regular expression '" + regex.pattern() + "' has no group " +
                     std::to_string(reference.group));
    if (reference.size == 0) {
      plain += rest.front();
      at += rest.starts_with("$$") ? 2 : 1;
      continue;
    }
    pieces_.push_back({std::exchange(plain, {}), 0, false});
    pieces_.push_back({"", reference.group, true});
    at += reference.size;
  }
  pieces_.push_back({std::move(plain), 0, false});
}

void Replacement::append(const Regex::Groups& groups, std::string& out) const {
  for (const Piece& piece : pieces_) {
    if (!piece.is_group)
      out += piece.text;
    else if (const auto& matched = groups[piece.group])
      out += *matched;
  }
}

}  // namespace cairn::inline v0
