// parse_expression.cc -- a parser by precedence: each function reads one level, the weakest first.
#include <cairn/tools/model_map/expression_node.h>

#include <cairn/base/errors.h>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace cairn::inline v0 {
namespace {

using Node = std::shared_ptr<const ExpressionNode>;

constexpr std::size_t kLongestExpression = 4096;
constexpr int kDeepestExpression = 64;

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

Node node(Operator op, std::vector<Node> parts, std::string name = "") {
  return std::make_shared<const ExpressionNode>(
      ExpressionNode{op, Json(), std::move(name), std::move(parts)});
}
Node constant(Json value) {
  return std::make_shared<const ExpressionNode>(
      ExpressionNode{Operator::kConstant, std::move(value), "", {}});
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Node whole() {
    if (text_.size() > kLongestExpression)
      invalid_argument(fmt::format("an expression of more than {} bytes", kLongestExpression));
    Node out = conditional();
    skip_space();
    if (at_ != text_.size()) fail("the end");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    const std::string_view rest = text_.substr(at_, 20);
    invalid_argument(fmt::format("'{}': expected {} at character {}{}", text_, expected, at_,
                                 rest.empty() ? std::string() : fmt::format(", not '{}'", rest)));
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  // Reads a symbol.
  bool take(std::string_view symbol) {
    skip_space();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  // Reads a word that is not the beginning of a longer one.
  bool take_word(std::string_view word) {
    skip_space();
    const std::size_t end = at_ + word.size();
    if (!text_.substr(at_).starts_with(word)) return false;
    if (end < text_.size() && (starts_name(text_[end]) || is_digit(text_[end]))) return false;
    at_ = end;
    return true;
  }

  Node conditional() {
    if (++depth_ > kDeepestExpression) invalid_argument("an expression with too many brackets");
    Node value = disjunction();
    if (take_word("if")) {
      Node condition = disjunction();
      if (!take_word("else")) fail("'else'");
      value = node(Operator::kIf, {std::move(value), std::move(condition), conditional()});
    }
    --depth_;
    return value;
  }
  Node disjunction() {
    Node left = conjunction();
    while (take_word("or")) left = node(Operator::kOr, {left, conjunction()});
    return left;
  }
  Node conjunction() {
    Node left = negation();
    while (take_word("and")) left = node(Operator::kAnd, {left, negation()});
    return left;
  }
  Node negation() {
    bool negated = false;
    while (take_word("not")) negated = !negated;
    Node value = comparison();
    return negated ? node(Operator::kNot, {std::move(value)}) : value;
  }
  Node comparison() {
    constexpr std::array<std::pair<std::string_view, Operator>, 6> kSymbols = {
        {{"==", Operator::kEqual},
         {"!=", Operator::kUnequal},
         {"<=", Operator::kLessOrEqual},
         {">=", Operator::kGreaterOrEqual},
         {"<", Operator::kLess},
         {">", Operator::kGreater}}};
    Node left = sum();
    for (const auto& [symbol, op] : kSymbols)
      if (take(symbol)) return node(op, {std::move(left), sum()});
    if (take_word("in")) return node(Operator::kIn, {std::move(left), sum()});
    const std::size_t before = at_;
    if (take_word("not")) {
      if (take_word("in"))
        return node(Operator::kNot, {node(Operator::kIn, {std::move(left), sum()})});
      at_ = before;
    }
    return left;
  }
  Node sum() {
    Node left = product();
    for (;;) {
      if (take("+"))
        left = node(Operator::kAdd, {left, product()});
      else if (take("-"))
        left = node(Operator::kSubtract, {left, product()});
      else
        return left;
    }
  }
  Node product() {
    Node left = sign();
    for (;;) {
      skip_space();
      if (text_.substr(at_).starts_with("**")) return left;
      if (take("*"))
        left = node(Operator::kMultiply, {left, sign()});
      else if (take("//"))
        left = node(Operator::kFloorDivide, {left, sign()});
      else if (take("/"))
        left = node(Operator::kDivide, {left, sign()});
      else if (take("%"))
        left = node(Operator::kModulo, {left, sign()});
      else
        return left;
    }
  }
  Node sign() {
    bool negative = false;
    while (take("-")) negative = !negative;
    Node value = power();
    return negative ? node(Operator::kNegate, {std::move(value)}) : value;
  }
  Node power() {
    Node base = member();
    if (!take("**")) return base;
    if (++depth_ > kDeepestExpression) invalid_argument("an expression with too many powers");
    Node out = node(Operator::kPower, {std::move(base), sign()});
    --depth_;
    return out;
  }
  Node member() {
    Node value = primary();
    for (;;) {
      if (take(".")) {
        value = node(Operator::kMember, {std::move(value)}, name());
      } else if (take("[")) {
        value = node(Operator::kIndex, {std::move(value), conditional()});
        if (!take("]")) fail("']'");
      } else {
        return value;
      }
    }
  }
  Node primary() {
    skip_space();
    if (take("(")) {
      Node inside = conditional();
      if (!take(")")) fail("')'");
      return inside;
    }
    if (take("[")) return node(Operator::kList, list_until("]"));
    if (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) return string();
    if (at_ < text_.size() && is_digit(text_[at_])) return number();
    for (const char* word : {"null", "None"})
      if (take_word(word)) return constant(Json());
    for (const char* word : {"true", "True"})
      if (take_word(word)) return constant(true);
    for (const char* word : {"false", "False"})
      if (take_word(word)) return constant(false);
    if (at_ == text_.size() || !starts_name(text_[at_])) fail("a value");
    std::string called = name();
    if (take("(")) return node(Operator::kCall, list_until(")"), std::move(called));
    return node(Operator::kName, {}, std::move(called));
  }
  std::vector<Node> list_until(std::string_view end) {
    std::vector<Node> parts;
    if (take(end)) return parts;
    do parts.push_back(conditional());
    while (take(","));
    if (!take(end)) fail(fmt::format("',' or '{}'", end));
    return parts;
  }
  std::string name() {
    skip_space();
    const std::size_t begin = at_;
    if (at_ < text_.size() && starts_name(text_[at_]))
      while (at_ < text_.size() && (starts_name(text_[at_]) || is_digit(text_[at_]))) ++at_;
    if (at_ == begin) fail("a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  Node string() {
    const char quote = text_[at_];
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a closing quote");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return constant(std::move(value));
  }
  Node number() {
    const char* first = text_.data() + at_;
    const char* last = text_.data() + text_.size();
    std::int64_t integer = 0;
    const auto [end, error] = std::from_chars(first, last, integer);
    const bool has_fraction = end != last && (*end == '.' || *end == 'e' || *end == 'E');
    if (error == std::errc() && !has_fraction) {
      at_ += static_cast<std::size_t>(end - first);
      return constant(integer);
    }
    double real = 0;
    const auto [real_end, real_error] = std::from_chars(first, last, real);
    if (real_error != std::errc()) fail("a number");
    at_ += static_cast<std::size_t>(real_end - first);
    return constant(real);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::shared_ptr<const ExpressionNode> parse_expression(std::string_view text) {
  return Parser(text).whole();
}

}  // namespace cairn::inline v0
