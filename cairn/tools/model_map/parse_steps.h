// parse_steps.h -- parses the steps of a two-sided rule.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/tools/model_map/model_map.h>

#include <string>

namespace cairn::inline v0 {

// An expression, or a number, bool or null that stands for itself.
Expression rule_expression(const Json& json, const std::string& pointer);
// An object of expressions.
NamedExpressions rule_expressions(const Json& json, const std::string& pointer);
DType rule_dtype(const Json& json, const std::string& pointer);

// Parses one step. Throws invalid_argument with the JSON pointer of the error.
MapStep parse_map_step(const Json& json, const std::string& pointer);

}  // namespace cairn::inline v0
