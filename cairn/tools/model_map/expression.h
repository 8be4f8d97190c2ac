// expression.h -- the expressions of two-sided rules: a small part of Python's, over JSON values.
//
//   config.head_dim or config.hidden_size // H        'a' if scanned else 'b'        sqrt(E)
//
// null and None, true and True, integers, floats, 'strings', [lists], names, x.member, x[index],
// + - * / // % **, == != < <= > >=, in, not, and, or, f(x). A null operand of arithmetic, and a
// member of null, give null. Integers are exact: one that exceeds 64 bits is an error.
#pragma once

#include <cairn/base/json/json.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// What the names of an expression stand for.
class ValueNames {
 public:
  ValueNames() = default;
  ValueNames(const ValueNames&) = delete;
  ValueNames& operator=(const ValueNames&) = delete;
  virtual ~ValueNames() = default;
  // Null if there is no such name.
  [[nodiscard]] virtual const Json* find(std::string_view name) const = 0;
  // All names, for suggestions.
  [[nodiscard]] virtual std::vector<std::string> all() const = 0;
  // Calls a function that the language itself does not have. Throws invalid_argument for one that
  // does not exist, and for wrong arguments.
  [[nodiscard]] virtual Json call(std::string_view function,
                                  const std::vector<Json>& arguments) const = 0;
};

struct ExpressionNode;

// A parsed expression. Copies share it.
class Expression {
 public:
  // Throws invalid_argument with the position of the error.
  explicit Expression(std::string_view text);
  // An expression that is this value.
  static Expression constant(Json value);

  [[nodiscard]] const std::string& text() const { return text_; }
  // Throws invalid_argument for unknown names, wrong types and results that are not defined.
  [[nodiscard]] Json evaluate(const ValueNames& names) const;
  // The names that it uses, in the order of the text, each once; functions are not among them.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  Expression() = default;

  std::string text_;
  std::shared_ptr<const ExpressionNode> root_;
};

// The beginning of a value's JSON text, for messages.
std::string shown_value(const Json& value);
// Whether a value counts as true: not null, false, 0, or an empty string, list or object.
bool is_true(const Json& value);

}  // namespace cairn::inline v0
