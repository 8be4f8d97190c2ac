// regex.h -- regular expressions with the syntax and meaning of Python's re on str, matched by
// PCRE2.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

class Replacement;

class Regex {
 public:
  // What must match: the whole text (re.fullmatch), or any part of it (re.search).
  enum class Extent : std::uint8_t { kWhole, kPart };
  // Throws invalid_argument that names the pattern and the position, counted in characters.
  explicit Regex(std::string_view pattern, Extent extent = Extent::kWhole);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  [[nodiscard]] const std::string& pattern() const { return pattern_; }
  // Whether the pattern is plain text, that matches itself alone.
  [[nodiscard]] bool is_literal() const { return literal_; }

  // What the groups matched, the whole text first; nullopt within for a group that took no part.
  // They borrow `text`. Not for two threads at once. Throws invalid_argument for text that is not
  // UTF-8 and where matching takes more steps than any sensible pattern needs.
  using Groups = std::vector<std::optional<std::string_view>>;
  [[nodiscard]] std::optional<Groups> full_match(std::string_view text);

  // The text with every match, from left to right, replaced, as re.sub does; of an expression of
  // extent kPart. Bytes of the text that are not UTF-8 stay, and nothing matches them. Throws
  // invalid_argument where matching takes too many steps.
  [[nodiscard]] std::string replace_all(std::string_view text, const Replacement& replacement);
  // How many groups there are, the whole match not counted.
  [[nodiscard]] std::size_t group_count() const;

  // The template with \1, \g<1>, \g<name> and escapes replaced as Python's Match.expand does.
  // Throws invalid_argument.
  [[nodiscard]] std::string expand(std::string_view text, const Groups& groups) const;

 private:
  struct Compiled;
  struct Subject {
    std::string_view text;
    bool is_utf8 = true;
  };
  [[nodiscard]] std::optional<Groups> match(const Subject& subject, std::size_t from,
                                            bool may_be_empty);
  std::string pattern_;
  bool literal_ = false;
  std::vector<std::pair<std::string, std::size_t>> names_;  // of groups
  std::unique_ptr<Compiled> compiled_;
};

// What a match is replaced by: text in which $1 to $99 are groups (nothing for one that took no
// part), $& is the whole match, and $$ is a dollar sign. Any other $ is itself. $12 is the first
// group and a 2 where there are fewer than 12.
class Replacement {
 public:
  // Throws invalid_argument for a group that the expression does not have.
  Replacement(std::string_view text, const Regex& regex);
  void append(const Regex::Groups& groups, std::string& out) const;

 private:
  struct Piece {
    std::string text;
    std::size_t group = 0;
    bool is_group = false;
  };
  std::vector<Piece> pieces_;
};

}  // namespace cairn
