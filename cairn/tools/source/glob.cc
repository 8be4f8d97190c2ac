// glob.cc -- shell-style patterns over parameter names.
#include <cairn/inspect.h>

#include <cairn/base/utf8.h>
#include <cairn/base/visible_text.h>
#include <cairn/tools/source/name_match.h>
#include <cairn/tree/names.h>

#include <algorithm>
#include <cstdint>

namespace cairn::inline v0 {
namespace {

// What a '/' of a pattern matches: itself only, or a '.', too.
enum class Slash : std::uint8_t { kItself, kAlsoDot };

// Where a pattern's bracket expression ends, and whether it accepts a character. `end` = npos: not
// a bracket expression ("[" without "]"); "[" then stands for itself.
struct BracketMatch {
  std::size_t end = std::string_view::npos;  // after the "]"
  bool takes = false;
};

// A byte that is not valid UTF-8 is in no range of characters.
BracketMatch match_bracket(std::string_view pattern, std::size_t open, Utf8Character c) {
  std::size_t p = open + 1;
  const bool negated = p < pattern.size() && (pattern[p] == '!' || pattern[p] == '^');
  if (negated) ++p;
  bool found = false;
  for (const std::size_t first = p; p < pattern.size();) {
    if (pattern[p] == ']' && p != first) return {p + 1, found != negated};
    const Utf8Character low = decode_utf8(pattern.substr(p));
    p += low.length;
    Utf8Character high = low;
    if (p + 1 < pattern.size() && pattern[p] == '-' && pattern[p + 1] != ']') {
      high = decode_utf8(pattern.substr(p + 1));
      p += 1 + high.length;
    }
    const bool same_kind = low.valid == c.valid && high.valid == c.valid;
    found = found || (same_kind && low.code <= c.code && c.code <= high.code);
  }
  return {};
}

// The position after the pattern's next element if it accepts the character, otherwise npos. The
// element is not '*'.
std::size_t step(std::string_view pattern, std::size_t p, Utf8Character c, Slash slash) {
  if (p >= pattern.size()) return std::string_view::npos;
  if (pattern[p] == '?') return p + 1;
  if (slash == Slash::kAlsoDot && c.code == '.' && is_typed_as(pattern[p], '.')) return p + 1;
  if (pattern[p] == '[') {
    const BracketMatch bracket = match_bracket(pattern, p, c);
    if (bracket.end != std::string_view::npos)
      return bracket.takes ? bracket.end : std::string_view::npos;
  }
  const Utf8Character want = decode_utf8(pattern.substr(p));
  return want.code == c.code && want.valid == c.valid ? p + want.length : std::string_view::npos;
}

// Only the last '*' ever needs to grow, so there is no recursion, and the cost is at most pattern
// size times text size.
bool match_glob(std::string_view pattern, std::string_view text, Slash slash) {
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
    const std::size_t next = step(pattern, p, c, slash);
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

// Whether a pattern stands for a name: see name_match.h.
bool matches_name(std::string_view pattern, std::string_view name, Slash slash) {
  if (pattern == name || match_glob(pattern, name, slash)) return true;
  const std::string shown = visible_text(name);
  if (shown == name) return false;
  // JSON shows a name partly escaped.
  const std::string wanted = visible_text(pattern);
  return wanted == shown || match_glob(wanted, shown, slash);
}

bool is_name(std::string_view pattern, std::string_view name) {
  return pattern == name || visible_text(pattern) == visible_text(name);
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  return match_glob(pattern, text, Slash::kItself);
}

bool name_matches(std::string_view pattern, std::string_view name) {
  return matches_name(pattern, name, Slash::kItself);
}

bool selects_item(std::span<const std::string> include, std::span<const std::string> exclude,
                  const std::string& item) {
  const auto matches = [&](const std::string& glob) {
    return name_matches(glob, item) || name_matches(glob, item + "/");
  };
  return (include.empty() || std::any_of(include.begin(), include.end(), matches)) &&
         std::none_of(exclude.begin(), exclude.end(), matches);
}

NamePattern::NamePattern(std::string pattern, std::span<const TensorInfo> leaves)
    : pattern_(std::move(pattern)) {
  slash_is_dot_ =
      pattern_.find('/') != std::string::npos &&
      std::none_of(leaves.begin(), leaves.end(), [&](const TensorInfo& leaf) {
        return is_name(pattern_, leaf.name) || (leaf.item && is_name(pattern_, leaf.full_name()));
      });
}

bool NamePattern::matches(const TensorInfo& leaf) const {
  const Slash slash = slash_is_dot_ ? Slash::kAlsoDot : Slash::kItself;
  if (matches_name(pattern_, leaf.name, slash)) return true;
  if (leaf.item && matches_name(pattern_, leaf.full_name(), slash)) return true;
  // TensorFlow's names are its keys.
  const std::string path = param_name(leaf.path);
  return path != leaf.name && matches_name(pattern_, path, slash);
}

std::vector<std::size_t> select_tensors(const Checkpoint& checkpoint,
                                        std::span<const std::string> include,
                                        std::span<const std::string> exclude) {
  const auto& tensors = checkpoint.tensors();
  const auto patterns_of = [&](std::span<const std::string> globs) {
    std::vector<NamePattern> patterns;
    patterns.reserve(globs.size());
    for (const std::string& glob : globs) patterns.emplace_back(glob, tensors);
    return patterns;
  };
  const auto matches = [](const std::vector<NamePattern>& patterns, const TensorInfo& leaf) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const NamePattern& pattern) { return pattern.matches(leaf); });
  };
  const std::vector<NamePattern> included = patterns_of(include);
  const std::vector<NamePattern> excluded = patterns_of(exclude);
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if ((include.empty() || matches(included, tensors[i])) && !matches(excluded, tensors[i]))
      chosen.push_back(i);
  return chosen;
}

}  // namespace cairn::inline v0
