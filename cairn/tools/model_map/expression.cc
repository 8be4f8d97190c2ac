// expression.cc -- evaluates expressions.
#include <cairn/tools/model_map/expression.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/inspect.h>
#include <cairn/tools/model_map/expression_node.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace cairn::inline v0 {
namespace {

double real_of(const Json& value) {
  if (const auto number = value.as_double()) return *number;
  if (const bool* flag = value.as_bool()) return *flag ? 1 : 0;
  invalid_argument(fmt::format("expected a number, not {}", shown_value(value)));
}

std::optional<std::int64_t> integer_of(const Json& value) {
  if (const bool* flag = value.as_bool()) return *flag ? 1 : 0;
  return value.as_int64();
}

Json finite(double value, std::string_view what) {
  if (!std::isfinite(value)) invalid_argument(fmt::format("{} is not a finite number", what));
  return value;
}

[[noreturn]] void too_large() { invalid_argument("an integer of more than 64 bits"); }

Json integer_arithmetic(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(a, b, &out);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &out);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &out);
      break;
    case Operator::kPower:
      out = 1;
      for (std::int64_t i = 0; i < b && !overflows && i < 64; ++i)
        overflows = __builtin_mul_overflow(out, a, &out);
      overflows = overflows || (b >= 64 && a != 0 && a != 1 && a != -1);
      if (a == -1 && b % 2 != 0) out = -1;
      if (a == -1 && b % 2 == 0) out = 1;
      break;
    default: {
      if (b == 0) invalid_argument("a division by zero");
      if (b == -1) {  // a / -1 may exceed 64 bits
        if (op == Operator::kModulo) return std::int64_t{0};
        overflows = __builtin_sub_overflow(std::int64_t{0}, a, &out);
        break;
      }
      const std::int64_t rest = ((a % b) + b) % b;  // of the sign of b, as in Python
      out = op == Operator::kModulo ? rest : (a - rest) / b;
      break;
    }
  }
  if (overflows) too_large();
  return out;
}

Json arithmetic(Operator op, const Json& a, const Json& b) {
  if (a.is_null() || b.is_null()) return {};
  if (op == Operator::kAdd && a.as_string() != nullptr && b.as_string() != nullptr)
    return *a.as_string() + *b.as_string();
  const auto m = integer_of(a);
  const auto n = integer_of(b);
  if (m && n && op != Operator::kDivide && !(op == Operator::kPower && *n < 0))
    return integer_arithmetic(op, *m, *n);
  const double x = real_of(a);
  const double y = real_of(b);
  const bool divides =
      op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && y == 0) invalid_argument("a division by zero");
  switch (op) {
    case Operator::kAdd:
      return finite(x + y, "the sum");
    case Operator::kSubtract:
      return finite(x - y, "the difference");
    case Operator::kMultiply:
      return finite(x * y, "the product");
    case Operator::kDivide:
      return finite(x / y, "the quotient");
    case Operator::kFloorDivide:
      return finite(std::floor(x / y), "the quotient");
    case Operator::kModulo:
      return finite(x - y * std::floor(x / y), "the rest");
    default:
      return finite(std::pow(x, y), "the power");
  }
}

bool equal(const Json& a, const Json& b) {
  return a.is_number() && b.is_number() ? real_of(a) == real_of(b) : a == b;
}

bool compare(Operator op, const Json& a, const Json& b) {
  const auto by = [&](auto x, auto y) {
    switch (op) {
      case Operator::kLess:
        return x < y;
      case Operator::kLessOrEqual:
        return x <= y;
      case Operator::kGreater:
        return x > y;
      default:
        return x >= y;
    }
  };
  if (a.as_string() != nullptr && b.as_string() != nullptr)
    return by(std::string_view(*a.as_string()), std::string_view(*b.as_string()));
  return by(real_of(a), real_of(b));
}

bool is_in(const Json& part, const Json& whole) {
  if (const JsonArray* list = whole.as_array())
    return std::ranges::any_of(*list, [&](const Json& item) { return equal(item, part); });
  if (whole.as_string() != nullptr && part.as_string() != nullptr)
    return whole.as_string()->find(*part.as_string()) != std::string::npos;
  if (whole.as_object() != nullptr && part.as_string() != nullptr)
    return whole.find(*part.as_string()) != nullptr;
  if (whole.is_null()) return false;
  invalid_argument(fmt::format("{} cannot be in {}", shown_value(part), shown_value(whole)));
}

Json index_into(const Json& list, const Json& index) {
  if (list.is_null() || index.is_null()) return {};
  if (list.as_object() != nullptr && index.as_string() != nullptr) {
    const Json* found = list.find(*index.as_string());
    return found == nullptr ? Json() : *found;
  }
  const auto i = index.as_int64();
  if (list.as_array() == nullptr || !i)
    invalid_argument(fmt::format("{} has no element {}", shown_value(list), shown_value(index)));
  const auto n = static_cast<std::int64_t>(list.as_array()->size());
  const std::int64_t at = *i < 0 ? *i + n : *i;
  if (at < 0 || at >= n) invalid_argument(fmt::format("element {} of a list of {}", *i, n));
  return (*list.as_array())[static_cast<std::size_t>(at)];
}

Json member_of(const Json& object, const std::string& name) {
  if (object.is_null()) return {};
  if (object.as_object() == nullptr)
    invalid_argument(fmt::format("{} has no member '{}'", shown_value(object), name));
  const Json* found = object.find(name);
  return found == nullptr ? Json() : *found;
}

Json rounded(std::string_view function, double x) {
  const double whole = function == "ceil"    ? std::ceil(x)
                       : function == "floor" ? std::floor(x)
                                             : std::trunc(x);
  if (!(std::fabs(whole) < 9e18)) too_large();
  return static_cast<std::int64_t>(whole);
}

double to_bfloat16(double x) {
  const Array wide = Array::from<double>({x}, {});
  Array narrow = Array::allocate(DType::kBfloat16, {});
  cast_elements(wide.view(), narrow.mutable_view());
  Array back = Array::allocate(DType::kFloat64, {});
  cast_elements(narrow.view(), back.mutable_view());
  return *reinterpret_cast<const double*>(back.bytes().data());
}

// The functions of the language; nullopt for another one.
std::optional<Json> call_own(std::string_view function, const std::vector<Json>& arguments) {
  if ((function == "min" || function == "max") && !arguments.empty()) {
    Json best = arguments[0];
    for (const Json& argument : arguments) {
      if (argument.is_null()) return Json();
      if (compare(function == "min" ? Operator::kLess : Operator::kGreater, argument, best))
        best = argument;
    }
    return best;
  }
  static constexpr std::array<std::string_view, 9> kOfOne = {
      "sqrt", "int", "float", "str", "len", "ceil", "floor", "bfloat16", "float32"};
  if (std::ranges::find(kOfOne, function) == kOfOne.end()) return std::nullopt;
  if (arguments.size() != 1) invalid_argument(fmt::format("{}() takes one argument", function));
  const Json& x = arguments[0];
  if (x.is_null()) return Json();
  if (function == "str") return x.as_string() != nullptr ? x : Json(to_text(x));
  if (function == "len") {
    if (x.as_array() != nullptr) return static_cast<std::int64_t>(x.as_array()->size());
    if (x.as_string() != nullptr) return static_cast<std::int64_t>(x.as_string()->size());
    invalid_argument(fmt::format("{} has no length", shown_value(x)));
  }
  if (function == "int" || function == "ceil" || function == "floor")
    return integer_of(x) ? Json(*integer_of(x)) : rounded(function, real_of(x));
  if (function == "float") return real_of(x);
  if (function == "float32") return static_cast<double>(static_cast<float>(real_of(x)));
  if (function == "bfloat16") return to_bfloat16(real_of(x));
  return finite(std::sqrt(real_of(x)), "the square root");
}

Json evaluate_node(const ExpressionNode& node, const ValueNames& names) {
  const auto part = [&](std::size_t i) { return evaluate_node(*node.parts[i], names); };
  switch (node.op) {
    case Operator::kConstant:
      return node.constant;
    case Operator::kName: {
      const Json* found = names.find(node.name);
      if (found == nullptr)
        invalid_argument(
            fmt::format("'{}' is not a value{}", node.name, did_you_mean(node.name, names.all())));
      return *found;
    }
    case Operator::kMember:
      return member_of(part(0), node.name);
    case Operator::kIndex:
      return index_into(part(0), part(1));
    case Operator::kList: {
      JsonArray list;
      for (std::size_t i = 0; i < node.parts.size(); ++i) list.push_back(part(i));
      return list;
    }
    case Operator::kCall: {
      std::vector<Json> arguments;
      for (std::size_t i = 0; i < node.parts.size(); ++i) arguments.push_back(part(i));
      if (auto own = call_own(node.name, arguments)) return *std::move(own);
      return names.call(node.name, arguments);
    }
    case Operator::kNegate:
      return arithmetic(Operator::kSubtract, Json(0), part(0));
    case Operator::kNot:
      return !is_true(part(0));
    case Operator::kAnd: {
      Json left = part(0);
      return is_true(left) ? part(1) : left;
    }
    case Operator::kOr: {
      Json left = part(0);
      return is_true(left) ? left : part(1);
    }
    case Operator::kIf:
      return is_true(part(1)) ? part(0) : part(2);
    case Operator::kIn:
      return is_in(part(0), part(1));
    case Operator::kEqual:
      return equal(part(0), part(1));
    case Operator::kUnequal:
      return !equal(part(0), part(1));
    case Operator::kLess:
    case Operator::kLessOrEqual:
    case Operator::kGreater:
    case Operator::kGreaterOrEqual: {
      const Json a = part(0);
      const Json b = part(1);
      if (a.is_null() || b.is_null()) return {};
      return compare(node.op, a, b);
    }
    default:
      return arithmetic(node.op, part(0), part(1));
  }
}

void add_names(const ExpressionNode& node, std::vector<std::string>& names) {
  if (node.op == Operator::kName && std::ranges::find(names, node.name) == names.end())
    names.push_back(node.name);
  for (const auto& part : node.parts) add_names(*part, names);
}

}  // namespace

Expression::Expression(std::string_view text) : text_(text), root_(parse_expression(text)) {}

Expression Expression::constant(Json value) {
  Expression out;
  out.text_ = to_text(value);
  ExpressionNode root;
  root.constant = std::move(value);
  out.root_ = std::make_shared<const ExpressionNode>(std::move(root));
  return out;
}

Json Expression::evaluate(const ValueNames& names) const {
  return with_context([&] { return "'" + printable_text(text_) + "'"; },
                      [&] { return evaluate_node(*root_, names); });
}

std::vector<std::string> Expression::names() const {
  std::vector<std::string> found;
  add_names(*root_, found);
  return found;
}

std::string shown_value(const Json& value) {
  constexpr std::size_t kMost = 60;
  return printable_text(to_text(value).substr(0, kMost));
}

bool is_true(const Json& value) {
  if (value.is_null()) return false;
  if (const bool* flag = value.as_bool()) return *flag;
  if (value.is_number()) return value.as_double().value_or(1) != 0;
  if (value.as_string() != nullptr) return !value.as_string()->empty();
  if (value.as_array() != nullptr) return !value.as_array()->empty();
  return !value.as_object()->empty();
}

}  // namespace cairn::inline v0
