// glob.cc -- shell-style patterns over parameter names.
#include <cairn/inspect.h>

#include <cairn/base/utf8.h>
#include <cairn/tree/transform/transform_keys.h>

namespace cairn::inline v0 {
namespace {

// Where a pattern's bracket expression ends, and whether it accepts a character. `end` = npos: not
// a bracket expression ("[" without "]"); "[" then stands for itself.
struct BracketMatch {
  std::size_t end = std::string_view::npos;  // after the "]"
  bool takes = false;
};

BracketMatch match_bracket(std::string_view pattern, std::size_t open, std::uint32_t c) {
  std::size_t p = open + 1;
  const bool negated = p < pattern.size() && (pattern[p] == '!' || pattern[p] == '^');
  if (negated) ++p;
  bool found = false;
  for (const std::size_t first = p; p < pattern.size();) {
    if (pattern[p] == ']' && p != first) return {p + 1, found != negated};
    const Utf8Character low = decode_utf8(pattern.substr(p));
    p += low.length;
    std::uint32_t high = low.code;
    if (p + 1 < pattern.size() && pattern[p] == '-' && pattern[p + 1] != ']') {
      const Utf8Character end = decode_utf8(pattern.substr(p + 1));
      high = end.code;
      p += 1 + end.length;
    }
    found = found || (low.code <= c && c <= high);
  }
  return {};
}

// The position after the pattern's next element if it accepts the character, otherwise npos. The
// element is not '*'.
std::size_t step(std::string_view pattern, std::size_t p, Utf8Character c) {
  if (p >= pattern.size()) return std::string_view::npos;
  if (pattern[p] == '?') return p + 1;
  if (pattern[p] == '[') {
    const BracketMatch bracket = match_bracket(pattern, p, c.code);
    if (bracket.end != std::string_view::npos)
      return bracket.takes ? bracket.end : std::string_view::npos;
  }
  const Utf8Character want = decode_utf8(pattern.substr(p));
  return want.code == c.code && want.valid == c.valid ? p + want.length : std::string_view::npos;
}

}  // namespace

// Only the last '*' ever needs to grow, so there is no recursion, and the cost is at most pattern
// size times text size.
bool glob_match(std::string_view pattern, std::string_view text) {
  constexpr auto kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = kNone;  // after the last '*'
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      continue;
    }
    const Utf8Character c = decode_utf8(text.substr(t));
    const std::size_t next = step(pattern, p, c);
    if (next != kNone) {
      p = next;
      t += c.length;
    } else if (star != kNone) {
      star_text += decode_utf8(text.substr(star_text)).length;
      t = star_text;
      p = star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::size_t> select_tensors(const Checkpoint& checkpoint,
                                        std::span<const std::string> include,
                                        std::span<const std::string> exclude) {
  const auto matches = [](std::span<const std::string> patterns, const TensorInfo& t) {
    for (const auto& pattern : patterns) {
      if (glob_match(pattern, t.name) || (t.item && glob_match(pattern, t.full_name())))
        return true;
      if (pattern.find('/') == std::string::npos) continue;
      const std::string keys = transform_key(t.path);
      if (glob_match(pattern, keys) || (t.item && glob_match(pattern, *t.item + "/" + keys)))
        return true;
    }
    return false;
  };
  std::vector<std::size_t> chosen;
  const auto& tensors = checkpoint.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if ((include.empty() || matches(include, tensors[i])) && !matches(exclude, tensors[i]))
      chosen.push_back(i);
  return chosen;
}

}  // namespace cairn::inline v0
