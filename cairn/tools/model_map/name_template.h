// name_template.h -- the names of a side: "model.layers.{2*j+1}.mlp.up_proj.weight".
//
// {expression} stands for a number or a string, {*text} for any text of at least one character.
// {{ and }} stand for braces.
#pragma once

#include <cairn/tools/model_map/expression.h>
#include <cairn/tools/model_map/scope.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// The texts of text variables.
using Texts = std::map<std::string, std::string, std::less<>>;

class NameTemplate {
 public:
  // What a name that matches has at its places.
  struct Match {
    std::vector<std::int64_t> numbers;  // of the expressions, in order
    Texts texts;
  };

  // Throws invalid_argument for braces that do not match and bad expressions.
  explicit NameTemplate(std::string_view text);

  [[nodiscard]] const std::string& text() const { return text_; }
  // The template with the values of the scope inserted: strings as templates again. Only
  // expressions with other names, and text variables, remain. Throws invalid_argument for a value
  // that is neither a string nor an integer.
  [[nodiscard]] NameTemplate resolved(const Scope& scope) const;
  // The names in its expressions that the scope does not know, and those of its text variables.
  [[nodiscard]] std::vector<std::string> variables(const Scope& scope) const;
  [[nodiscard]] std::vector<std::string> text_variables() const;

  // The name, with the loop variables of the scope. Throws invalid_argument for an unknown one.
  [[nodiscard]] std::string expand(const Scope& scope, const Texts& texts) const;
  // Compares a name with the template, in which each expression matches digits. Returns nullopt if
  // it does not match. Of several ways to match text variables, the shortest first text counts.
  [[nodiscard]] std::optional<Match> match(std::string_view name) const;
  // For a template whose expressions have one variable each, and are linear in it: the value of
  // every variable at a name; nullopt if the name does not match, or no index gives it. Leaves no
  // loop variable in the scope.
  [[nodiscard]] std::optional<std::pair<Indices, Texts>> solve(std::string_view name,
                                                               Scope& scope) const;

 private:
  struct Part {
    std::optional<Expression> expression;
    bool any_text = false;
    std::string text;  // literal, or the name of a text variable
  };

  NameTemplate() = default;
  void parse(std::string_view text);
  void append(const Scope& scope, int depth, std::vector<Part>& parts) const;
  bool match_from(std::size_t part, std::string_view rest, Match& match) const;

  std::string text_;
  std::vector<Part> parts_;
};

}  // namespace cairn::inline v0
