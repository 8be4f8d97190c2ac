#include <cairn/tools/model_map/parse_steps.h>

#include <cairn/base/errors.h>
#include <cairn/inspect.h>
#include <cairn/tools/transform/rules_json.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cairn::inline v0 {
namespace {

struct StepForm {
  std::string_view name;
  MapStepKind kind;
  std::vector<std::string_view> members;
};

const std::vector<StepForm>& step_forms() {
  static const std::vector<StepForm> kForms = {
      {"rearrange", MapStepKind::kRearrange, {}},
      {"shape", MapStepKind::kCheckShape, {}},
      {"affine", MapStepKind::kAffine, {}},
      {"resize", MapStepKind::kResize, {}},
      {"cast", MapStepKind::kCast, {}},
      {"stack", MapStepKind::kStack, {}},
      {"unstack", MapStepKind::kUnstack, {}},
      {"concatenate", MapStepKind::kConcatenate, {"sizes"}},
      {"split", MapStepKind::kSplit, {"sizes"}},
      {"copy", MapStepKind::kCopy, {}},
      {"same", MapStepKind::kSame, {}}};
  return kForms;
}

const StepForm& form_of(const JsonObject& members, const std::string& pointer) {
  const StepForm* found = nullptr;
  for (const auto& member : members)
    for (const StepForm& form : step_forms()) {
      if (form.name != member.first) continue;
      if (found != nullptr && found != &form)
        rule_error(pointer, fmt::format("both '{}' and '{}' in one step", found->name, form.name));
      found = &form;
    }
  if (found != nullptr) return *found;
  std::vector<std::string> words;
  for (const StepForm& form : step_forms()) words.emplace_back(form.name);
  const std::string hint = members.empty() ? "" : did_you_mean(members[0].first, words);
  rule_error(pointer,
             fmt::format("no operation; expected one of {}{}", fmt::join(words, ", "), hint));
}

// The only members of an object, or none of them if the value is something else.
const JsonObject& members_of(const Json& value, const std::string& pointer,
                             const std::vector<std::string_view>& known) {
  const JsonObject& members = rule_object(value, pointer, "an object");
  check_rule_members(members, known, pointer);
  return members;
}

std::optional<Expression> find_expression(const Json& object, std::string_view name,
                                          const std::string& pointer) {
  const Json* member = object.find(name);
  if (member == nullptr) return std::nullopt;
  return rule_expression(*member, pointer + "/" + std::string(name));
}

void read_rearrangement(const Json& value, const std::string& pointer, MapStep& step) {
  const std::string text = rule_string(value, pointer);
  step.rearrangement =
      with_context([&] { return pointer; }, [&] { return parse_rearrangement(text); });
  if (step.kind == MapStepKind::kCheckShape && step.rearrangement.from != step.rearrangement.to)
    rule_error(pointer, "expected the axes of one side, without '->'");
}

void read_affine(const Json& value, const std::string& pointer, MapStep& step) {
  members_of(value, pointer, {"scale", "offset"});
  step.scale = find_expression(value, "scale", pointer);
  step.offset = find_expression(value, "offset", pointer);
  if (!step.scale && !step.offset) rule_error(pointer, "expected 'scale' or 'offset'");
}

void read_resize(const Json& value, const std::string& pointer, MapStep& step) {
  members_of(value, pointer, {"axis", "from", "to", "trim"});
  step.axis = find_expression(value, "axis", pointer);
  step.from = find_expression(value, "from", pointer);
  step.to = find_expression(value, "to", pointer);
  step.trim = find_expression(value, "trim", pointer);
  if (!step.axis) rule_error(pointer, "'axis' is missing");
  if (!step.to && !step.from) rule_error(pointer, "expected 'from' or 'to'");
}

void read_cast(const Json& value, const std::string& pointer, MapStep& step) {
  if (value.as_string() != nullptr) {
    step.to_type = rule_dtype(value, pointer);
    return;
  }
  members_of(value, pointer, {"to", "back"});
  if (const Json* to = value.find("to")) step.to_type = rule_dtype(*to, pointer + "/to");
  if (const Json* back = value.find("back")) step.back_type = rule_dtype(*back, pointer + "/back");
  if (!step.to_type && !step.back_type) rule_error(pointer, "expected 'to' or 'back'");
}

// {"i": 1}: loop variables; 0: a list of templates.
void read_axes(const Json& value, const std::string& pointer, MapStep& step) {
  if (value.as_object() == nullptr) {
    step.axis = rule_expression(value, pointer);
    return;
  }
  step.axes = rule_expressions(value, pointer);
  if (step.axes.empty()) rule_error(pointer, "expected loop variables with their axes");
}

// ["i"]: loop variables; true: a list of templates.
void read_variables(const Json& value, const std::string& pointer, MapStep& step) {
  if (const bool* all = value.as_bool(); all != nullptr && *all) return;
  for (const std::string& name : rule_list(value, pointer, rule_string))
    step.axes.emplace_back(name, Expression::constant(Json()));
}

void read_operation(const Json& value, const std::string& pointer, MapStep& step) {
  switch (step.kind) {
    case MapStepKind::kRearrange:
    case MapStepKind::kCheckShape:
      return read_rearrangement(value, pointer, step);
    case MapStepKind::kAffine:
      return read_affine(value, pointer, step);
    case MapStepKind::kResize:
      return read_resize(value, pointer, step);
    case MapStepKind::kCast:
      return read_cast(value, pointer, step);
    case MapStepKind::kStack:
    case MapStepKind::kUnstack:
      return read_axes(value, pointer, step);
    case MapStepKind::kConcatenate:
    case MapStepKind::kSplit:
      step.axis = rule_expression(value, pointer);
      return;
    case MapStepKind::kCopy:
    case MapStepKind::kSame:
      return read_variables(value, pointer, step);
  }
}

}  // namespace

Expression rule_expression(const Json& json, const std::string& pointer) {
  if (json.as_string() == nullptr) {
    if (json.as_object() != nullptr || json.as_array() != nullptr)
      rule_error(pointer,
                 fmt::format("expected an expression or a number, not {}", json.type_text()));
    return Expression::constant(json);
  }
  const std::string text = rule_string(json, pointer);
  return with_context([&] { return pointer; }, [&] { return Expression(text); });
}

NamedExpressions rule_expressions(const Json& json, const std::string& pointer) {
  NamedExpressions out;
  check_repeated_members(rule_object(json, pointer, "an object of expressions"), pointer);
  for (const auto& [name, value] : *json.as_object())
    out.emplace_back(name, rule_expression(value, pointer + "/" + pointer_step(name)));
  return out;
}

DType rule_dtype(const Json& json, const std::string& pointer) {
  const std::string text = rule_string(json, pointer);
  return with_context([&] { return pointer; }, [&] { return parse_dtype(text); });
}

MapStep parse_map_step(const Json& json, const std::string& pointer) {
  const JsonObject& members = rule_object(json, pointer, "a step");
  const StepForm& form = form_of(members, pointer);
  MapStep step;
  step.kind = form.kind;
  step.name = form.name;
  step.where = pointer;
  const bool has_parts =
      step.kind == MapStepKind::kRearrange || step.kind == MapStepKind::kCheckShape;
  std::vector<std::string_view> known = {form.name, "if"};
  known.insert(known.end(), form.members.begin(), form.members.end());
  read_operation(*json.find(form.name), pointer + "/" + std::string(form.name), step);
  for (const std::string& part : step.rearrangement.names) known.emplace_back(part);
  check_rule_members(members, known, pointer);
  step.condition = find_expression(json, "if", pointer);
  if (const Json* sizes = json.find("sizes"); sizes != nullptr && !has_parts)
    step.sizes = rule_list(*sizes, pointer + "/sizes", rule_expression);
  for (const std::string& part : step.rearrangement.names)
    if (part != "if" && json.find(part) != nullptr)
      step.extents.emplace_back(part, *find_expression(json, part, pointer));
  return step;
}

MapStep inverted(const MapStep& step) {
  MapStep out = step;
  switch (step.kind) {
    case MapStepKind::kRearrange:
    case MapStepKind::kCheckShape:
      out.rearrangement = step.rearrangement.inverse();
      return out;
    case MapStepKind::kAffine:
      out.inverse = !step.inverse;
      return out;
    case MapStepKind::kResize:
      std::swap(out.from, out.to);
      return out;
    case MapStepKind::kCast:
      std::swap(out.to_type, out.back_type);
      return out;
    case MapStepKind::kStack:
    case MapStepKind::kUnstack:
      out.kind = step.kind == MapStepKind::kStack ? MapStepKind::kUnstack : MapStepKind::kStack;
      return out;
    case MapStepKind::kConcatenate:
    case MapStepKind::kSplit:
      out.kind = step.kind == MapStepKind::kSplit ? MapStepKind::kConcatenate : MapStepKind::kSplit;
      return out;
    case MapStepKind::kCopy:
    case MapStepKind::kSame:
      out.kind = step.kind == MapStepKind::kSame ? MapStepKind::kCopy : MapStepKind::kSame;
      return out;
  }
  return out;
}

}  // namespace cairn::inline v0
