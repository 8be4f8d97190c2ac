// transform_rules.cc -- parses rules from JSON. Anything that is not in the table below is an
// error, so that no typing mistake goes unnoticed.

#include <cairn/tools/transform/transform_rules.h>

#include <cairn/base/json/json.h>
#include <cairn/error.h>
#include <cairn/inspect.h>
#include <cairn/tree/suggest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMaxRulesBytes = std::size_t{16} << 20U;
constexpr std::size_t kMaxDepth = 8;

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

[[noreturn]] void fail(const std::string& pointer, const std::string& why) {
  throw Error(Code::kInvalidArgument,
              (pointer.empty() ? "(the whole document)" : pointer) + ": " + why);
}

// Escapes a member name for a JSON pointer.
std::string escaped(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, 100)) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

std::string string_of(const Json& json, const std::string& pointer) {
  if (json.as_string() == nullptr)
    fail(pointer, "expected a string, not " + std::string(json.type_text()));
  if (json.as_string()->empty()) fail(pointer, "the string is empty");
  return *json.as_string();
}

std::int64_t integer_of(const Json& json, const std::string& pointer) {
  const auto value = json.as_int64();
  if (!value) fail(pointer, "expected an integer, not " + std::string(json.type_text()));
  return *value;
}

template <class Read>
auto list_of(const Json& json, const std::string& pointer, Read read) {
  if (json.as_array() == nullptr)
    fail(pointer, "expected a list, not " + std::string(json.type_text()));
  if (json.as_array()->empty()) fail(pointer, "the list is empty");
  std::vector<decltype(read(json, pointer))> out;
  for (std::size_t i = 0; i < json.as_array()->size(); ++i)
    out.push_back(read((*json.as_array())[i], pointer + "/" + std::to_string(i)));
  return out;
}

void read_field(TransformRule& rule, std::string_view name, const Json& json,
                const std::string& pointer) {
  if (name == "to") {
    rule.to = rule.kind == RuleKind::kSplit ? list_of(json, pointer, string_of)
                                            : std::vector{string_of(json, pointer)};
  } else if (name == "with") {
    rule.with = list_of(json, pointer, string_of);
  } else if (name == "a" || name == "b") {
    rule.with.resize(2);
    rule.with[name == "a" ? 0 : 1] = string_of(json, pointer);
  } else if (name == "axis") {
    rule.axis = integer_of(json, pointer);
  } else if (name == "axes") {
    rule.axes = list_of(json, pointer, integer_of);
  } else if (name == "sizes") {
    rule.sizes = list_of(json, pointer, integer_of);
    if (rule.sizes.size() != rule.to.size())
      fail(pointer, "expected as many sizes as there are keys in 'to'");
    for (std::size_t i = 0; i < rule.sizes.size(); ++i)
      if (rule.sizes[i] <= 0) fail(pointer + "/" + std::to_string(i), "expected a size above 0");
  } else if (name == "dtype") {
    const std::string text = string_of(json, pointer);
    rule.dtype = with_context([&] { return pointer; }, [&] { return parse_dtype(text); });
  } else {
    const auto scale = json.as_double();
    if (!scale || !std::isfinite(*scale)) fail(pointer, "expected a finite number");
    rule.scale = *scale;
  }
}

const Operation& operation_of(const Json& json, const std::string& pointer) {
  if (json.as_object() == nullptr)
    fail(pointer, "expected a rule (an object), not " + std::string(json.type_text()));
  const Operation* found = nullptr;
  std::string known;
  for (const Operation& operation : operations()) {
    known += (known.empty() ? "" : ", ") + std::string(operation.name);
    if (json.find(operation.name) == nullptr) continue;
    if (found != nullptr)
      fail(pointer, "both '" + std::string(found->name) + "' and '" + std::string(operation.name) +
                        "' in one rule");
    found = &operation;
  }
  if (found == nullptr) {
    std::vector<std::string> words;
    for (const Operation& operation : operations()) words.emplace_back(operation.name);
    std::string hint;
    for (const auto& member : *json.as_object())
      if (hint.empty()) hint = did_you_mean(member.first, words);
    fail(pointer, "no operation; expected one of " + known + hint);
  }
  return *found;
}

// Throws for a duplicate member, and for one that is not in `known`.
void check_members(const JsonObject& members, const std::vector<std::string_view>& known,
                   const std::string& pointer) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string& name = members[i].first;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string expected;
      for (const auto text : known) expected.append(expected.empty() ? "" : ", ").append(text);
      const std::vector<std::string> words(known.begin(), known.end());
      fail(pointer + "/" + escaped(name),
           "unknown member; expected one of " + expected + did_you_mean(name, words));
    }
    for (std::size_t j = 0; j < i; ++j)
      if (members[j].first == name) fail(pointer + "/" + escaped(name), "the member appears twice");
  }
}

TransformRule parse_rule(const Json& json, const std::string& pointer) {
  const Operation& operation = operation_of(json, pointer);
  std::vector<std::string_view> fields = operation.required;
  fields.insert(fields.end(), operation.optional.begin(), operation.optional.end());
  std::vector<std::string_view> known = fields;
  known.push_back(operation.name);
  check_members(*json.as_object(), known, pointer);
  TransformRule rule;
  rule.kind = operation.kind;
  rule.where = pointer;
  rule.pattern = string_of(*json.find(operation.name), pointer + "/" + std::string(operation.name));
  for (const auto name : fields) {
    const Json* field = json.find(name);
    if (field != nullptr)
      read_field(rule, name, *field, pointer + "/" + std::string(name));
    else if (std::find(operation.required.begin(), operation.required.end(), name) !=
             operation.required.end())
      fail(pointer, "'" + std::string(operation.name) + "' needs '" + std::string(name) + "'");
  }
  return rule;
}

}  // namespace

TransformRules parse_transform_rules(std::string_view json) {
  const Json document = [&] {
    try {
      return parse_json(without_byte_order_mark(json),
                        {.max_depth = kMaxDepth, .max_bytes = kMaxRulesBytes});
    } catch (const Error& e) {
      throw Error(Code::kInvalidArgument, "the rules are not JSON: " + e.message());
    }
  }();
  if (document.as_object() == nullptr)
    fail("", "expected an object with 'rules', not " + std::string(document.type_text()));
  check_members(*document.as_object(), {"rules", "unmentioned"}, "");
  TransformRules out;
  if (const Json* unmentioned = document.find("unmentioned")) {
    const std::string text = string_of(*unmentioned, "/unmentioned");
    if (text != "keep" && text != "drop") fail("/unmentioned", "expected 'keep' or 'drop'");
    out.keep_unmentioned = text == "keep";
  }
  if (document.find("rules") == nullptr) fail("", "'rules' is missing");
  out.rules = list_of(*document.find("rules"), "/rules", parse_rule);
  return out;
}

}  // namespace cairn::inline v0
