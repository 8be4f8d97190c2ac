// transform_rules.cc -- parses rules from JSON. Anything that is not in the table below is an
// error, so that no typing mistake goes unnoticed.

#include <cairn/tools/transform/transform_rules.h>

#include <cairn/tools/transform/rules_json.h>

#include <cairn/base/json/json.h>
#include <cairn/error.h>
#include <cairn/inspect.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cairn::inline v0 {
namespace {

struct Operation {
  std::string_view name;
  RuleKind kind;
  std::vector<std::string_view> required, optional;
};

const std::array<Operation, 10>& operations() {
  static const std::array<Operation, 10> kOperations = {{
      {"rename", RuleKind::kRename, {"to"}, {}},
      {"drop", RuleKind::kDrop, {}, {}},
      {"keep", RuleKind::kKeep, {}, {}},
      {"cast", RuleKind::kCast, {"dtype"}, {}},
      {"transpose", RuleKind::kTranspose, {}, {"axes"}},
      {"stack", RuleKind::kStack, {"to"}, {"axis"}},
      {"unstack", RuleKind::kUnstack, {"to"}, {"axis"}},
      {"concatenate", RuleKind::kConcatenate, {"with", "to"}, {"axis"}},
      {"split", RuleKind::kSplit, {"to"}, {"axis", "sizes"}},
      {"add_low_rank", RuleKind::kAddLowRank, {"a", "b"}, {"scale"}},
  }};
  return kOperations;
}

void read_field(TransformRule& rule, std::string_view name, const Json& json,
                const std::string& pointer) {
  if (name == "to") {
    rule.to = rule.kind == RuleKind::kSplit ? rule_list(json, pointer, rule_string)
                                            : std::vector{rule_string(json, pointer)};
  } else if (name == "with") {
    rule.with = rule_list(json, pointer, rule_string);
  } else if (name == "a" || name == "b") {
    rule.with.resize(2);
    rule.with[name == "a" ? 0 : 1] = rule_string(json, pointer);
  } else if (name == "axis") {
    rule.axis = rule_integer(json, pointer);
  } else if (name == "axes") {
    rule.axes = rule_list(json, pointer, rule_integer);
  } else if (name == "sizes") {
    rule.sizes = rule_list(json, pointer, rule_integer);
    if (rule.sizes.size() != rule.to.size())
      rule_error(pointer, "expected as many sizes as there are keys in 'to'");
    for (std::size_t i = 0; i < rule.sizes.size(); ++i)
      if (rule.sizes[i] <= 0)
        rule_error(pointer + "/" + std::to_string(i), "expected a size above 0");
  } else if (name == "dtype") {
    const std::string text = rule_string(json, pointer);
    rule.dtype = with_context([&] { return pointer; }, [&] { return parse_dtype(text); });
  } else {
    const auto scale = json.as_double();
    if (!scale || !std::isfinite(*scale)) rule_error(pointer, "expected a finite number");
    rule.scale = *scale;
  }
}

const Operation& operation_of(const Json& json, const std::string& pointer) {
  if (json.as_object() == nullptr)
    rule_error(pointer, "expected a rule (an object), not " + std::string(json.type_text()));
  const Operation* found = nullptr;
  std::string known;
  for (const Operation& operation : operations()) {
    known += (known.empty() ? "" : ", ") + std::string(operation.name);
    if (json.find(operation.name) == nullptr) continue;
    if (found != nullptr)
      rule_error(pointer, "both '" + std::string(found->name) + "' and '" +
                              std::string(operation.name) + "' in one rule");
    found = &operation;
  }
  if (found == nullptr) {
    std::vector<std::string> words;
    for (const Operation& operation : operations()) words.emplace_back(operation.name);
    std::string hint;
    for (const auto& member : *json.as_object())
      if (hint.empty()) hint = did_you_mean(member.first, words);
    rule_error(pointer, "no operation; expected one of " + known + hint);
  }
  return *found;
}

TransformRule parse_rule(const Json& json, const std::string& pointer) {
  const Operation& operation = operation_of(json, pointer);
  std::vector<std::string_view> fields = operation.required;
  fields.insert(fields.end(), operation.optional.begin(), operation.optional.end());
  std::vector<std::string_view> known = fields;
  known.push_back(operation.name);
  check_rule_members(*json.as_object(), known, pointer);
  TransformRule rule;
  rule.kind = operation.kind;
  rule.where = pointer;
  rule.pattern =
      rule_string(*json.find(operation.name), pointer + "/" + std::string(operation.name));
  for (const auto name : fields) {
    const Json* field = json.find(name);
    if (field != nullptr)
      read_field(rule, name, *field, pointer + "/" + std::string(name));
    else if (std::find(operation.required.begin(), operation.required.end(), name) !=
             operation.required.end())
      rule_error(pointer,
                 "'" + std::string(operation.name) + "' needs '" + std::string(name) + "'");
  }
  return rule;
}

}  // namespace

TransformRules parse_transform_rules(std::string_view json) {
  const Json document = parse_rules_document(json);
  if (document.as_object() == nullptr)
    rule_error("", "expected an object with 'rules', not " + std::string(document.type_text()));
  check_rule_members(*document.as_object(), {"rules", "unmentioned"}, "");
  TransformRules out;
  if (const Json* unmentioned = document.find("unmentioned")) {
    const std::string text = rule_string(*unmentioned, "/unmentioned");
    if (text != "keep" && text != "drop") rule_error("/unmentioned", "expected 'keep' or 'drop'");
    out.keep_unmentioned = text == "keep";
  }
  if (document.find("rules") == nullptr) rule_error("", "'rules' is missing");
  out.rules = rule_list(*document.find("rules"), "/rules", parse_rule);
  return out;
}

}  // namespace cairn::inline v0
