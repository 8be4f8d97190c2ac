// regex.h -- regular expressions with the syntax and meaning of Python's re.fullmatch on str, matched by PCRE2.
#pragma once

#include <cairn/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

class Regex {
 public:
  // Throws invalid_argument that names the pattern and the position, counted in characters.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  [[nodiscard]] const std::string& pattern() const { return pattern_; }
  // Whether the pattern is plain text, that matches itself alone.
  [[nodiscard]] bool is_literal() const { return literal_; }

  // What the groups matched, the whole text first; nullopt within for a group that took no part. They borrow `text`. Not for two threads at
  // once. Throws invalid_argument for text that is not UTF-8 and where matching takes more steps than any sensible pattern needs.
  using Groups = std::vector<std::optional<std::string_view>>;
  [[nodiscard]] std::optional<Groups> full_match(std::string_view text);

  // The template with \1, \g<1>, \g<name> and escapes replaced as Python's Match.expand does. Throws invalid_argument.
  [[nodiscard]] std::string expand(std::string_view text, const Groups& groups) const;

 private:
  struct Compiled;
  std::string pattern_;
  bool literal_ = false;
  std::vector<std::pair<std::string, std::size_t>> names_;  // of groups
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace cairn
