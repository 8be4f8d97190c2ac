// regex.h -- regular expressions with the syntax and semantics of Python's re on str. PCRE2 does
// the matching.
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

namespace cairn::inline v0 {

// The version of PCRE2 that runs.
std::string regex_library_version();

// A compiled pattern.
class Regex {
 public:
  // How much must match: the whole text (re.fullmatch), or any part of it (re.search).
  enum class Extent : std::uint8_t { kWhole, kPart };
  // Throws invalid_argument with the pattern and the position, counted in characters.
  explicit Regex(std::string_view pattern, Extent extent = Extent::kWhole);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  [[nodiscard]] const std::string& pattern() const { return pattern_; }
  // Whether the pattern is plain text that matches only itself.
  [[nodiscard]] bool is_literal() const { return literal_; }

  // The matched groups, the whole match first; nullopt for a group that took no part. They borrow
  // the text.
  using Groups = std::vector<std::optional<std::string_view>>;
  // Matches the text; nullopt if it does not match. Must not run in two threads at once. Throws
  // invalid_argument for text that is not UTF-8, and if matching takes more steps than any sensible
  // pattern needs.
  [[nodiscard]] std::optional<Groups> full_match(std::string_view text);

  // Expands \1, \g<1>, \g<name> and escapes in a template, as Python's Match.expand does. Throws
  // invalid_argument for a bad template.
  [[nodiscard]] std::string expand(std::string_view text, const Groups& groups) const;
  // Throws invalid_argument for a template that expand() refuses.
  void check_template(std::string_view text) const;
  // Replaces every match from left to right by the expanded template, as re.sub does. The
  // expression must have extent kPart. Bytes that are not UTF-8 stay; nothing matches them. Throws
  // as expand, and if matching takes too many steps.
  [[nodiscard]] std::string replace_all(std::string_view text, std::string_view replacement);

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
  std::vector<std::pair<std::string, std::size_t>> names_;  // of the named groups
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace cairn::inline v0
