// expression_node.h -- the tree of a parsed expression.
#pragma once

#include <cairn/base/json/json.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

enum class Operator : std::uint8_t {
  kConstant,
  kName,
  kMember,
  kIndex,
  kList,
  kCall,
  kNegate,
  kNot,
  kAnd,
  kOr,
  kIf,  // parts: the value, the condition, the other value
  kIn,
  kEqual,
  kUnequal,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};

struct ExpressionNode {
  Operator op = Operator::kConstant;
  Json constant;     // of kConstant
  std::string name;  // of kName, kMember, kCall
  std::vector<std::shared_ptr<const ExpressionNode>> parts = {};
};

// Parses an expression. Throws invalid_argument with the position of the error.
std::shared_ptr<const ExpressionNode> parse_expression(std::string_view text);

}  // namespace cairn::inline v0
