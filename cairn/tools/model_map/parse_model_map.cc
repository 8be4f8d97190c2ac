#include <cairn/tools/model_map/model_map.h>

#include <cairn/base/errors.h>
#include <cairn/tools/model_map/parse_steps.h>
#include <cairn/tools/transform/rules_json.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMostTextVariables = 4;  // matching takes time that grows with their number

NameTemplate template_of(const Json& json, const std::string& pointer) {
  const std::string text = rule_string(json, pointer);
  NameTemplate out = with_context([&] { return pointer; }, [&] { return NameTemplate(text); });
  if (std::ranges::count(text, '*') > 0 && out.text_variables().size() > kMostTextVariables)
    rule_error(pointer, fmt::format("more than {} text variables", kMostTextVariables));
  return out;
}

std::vector<NameTemplate> templates_of(const Json& json, const std::string& pointer) {
  if (json.as_array() != nullptr) return rule_list(json, pointer, template_of);
  return {template_of(json, pointer)};
}

std::vector<MapStep> steps_of(const Json& json, const std::string& pointer) {
  if (json.as_object() != nullptr) return {parse_map_step(json, pointer)};
  return rule_list(json, pointer, parse_map_step);
}

// An expression, or true for a rule that is always optional.
std::optional<Expression> find_member(const Json& json, std::string_view name,
                                      const std::string& pointer) {
  const Json* member = json.find(name);
  if (member == nullptr) return std::nullopt;
  return rule_expression(*member, pointer + "/" + std::string(name));
}

void read_one_sided(const Json& json, const std::string& pointer, MapRule& rule) {
  if (const Json* drop = json.find("drop")) {
    if (drop->as_bool() == nullptr || !*drop->as_bool())
      rule_error(pointer + "/drop", "expected true");
    rule.kind = MapRuleKind::kDrop;
    check_rule_members(*json.as_object(), {"drop", "if"}, pointer);
  } else if (const Json* same = json.find("same")) {
    rule.kind = MapRuleKind::kSame;
    rule.equal = template_of(*same, pointer + "/same");
    check_rule_members(*json.as_object(), {"same", "if"}, pointer);
  } else if (json.find("fill") != nullptr) {
    rule.kind = MapRuleKind::kFill;
    check_rule_members(*json.as_object(), {"fill", "dims", "dtype", "if", "for"}, pointer);
    rule.fill = find_member(json, "fill", pointer);
    for (const char* needed : {"dims", "dtype"})
      if (json.find(needed) == nullptr)
        rule_error(pointer, fmt::format("'fill' needs '{}'", needed));
    rule.dtype = rule_dtype(*json.find("dtype"), pointer + "/dtype");
    const Json& dims = *json.find("dims");
    if (dims.as_array() == nullptr) rule_error(pointer + "/dims", "expected a list");
    for (const Json& extent : *dims.as_array())
      rule.extents.push_back(rule_expression(extent, pointer + "/dims"));
  } else {
    rule_error(pointer, "a rule with one side needs 'drop', 'fill' or 'same'");
  }
}

class MapParser {
 public:
  ModelMap parse(const Json& document) {
    check_rule_members(rule_object(document, "", "an object with 'rules'"),
                       {"title", "sources", "tested", "sides", "options", "let", "for", "flat",
                        "unmentioned", "rules"},
                       "");
    read_sides(document);
    if (const Json* title = document.find("title")) map_.title = rule_string(*title, "/title");
    if (const Json* texts = document.find("sources"))
      map_.sources = rule_list(*texts, "/sources", rule_string);
    if (const Json* texts = document.find("tested"))
      map_.tested = rule_list(*texts, "/tested", rule_string);
    if (const Json* options = document.find("options")) read_options(*options);
    if (const Json* let = document.find("let")) map_.let = rule_expressions(*let, "/let");
    if (const Json* counts = document.find("for")) map_.counts = rule_expressions(*counts, "/for");
    check_names();
    if (const Json* flat = document.find("flat")) {
      map_.flat = rule_expressions(*flat, "/flat");
      for (const auto& entry : map_.flat)
        if (entry.first != map_.sides[0] && entry.first != map_.sides[1])
          rule_error("/flat/" + pointer_step(entry.first), "there is no such side");
    }
    if (const Json* unmentioned = document.find("unmentioned")) read_unmentioned(*unmentioned);
    if (document.find("rules") == nullptr) rule_error("", "'rules' is missing");
    map_.rules = rule_list(
        *document.find("rules"), "/rules",
        [&](const Json& rule, const std::string& pointer) { return parse_rule(rule, pointer); });
    return std::move(map_);
  }

 private:
  void read_sides(const Json& document) {
    const Json* sides = document.find("sides");
    if (sides == nullptr) rule_error("", "'sides' is missing");
    const std::vector<std::string> names = rule_list(*sides, "/sides", rule_string);
    if (names.size() != 2 || names[0] == names[1])
      rule_error("/sides", "expected the names of two sides");
    for (const std::string& name : names)
      for (const char* taken :
           {"do", "if", "for", "optional", "drop", "fill", "same", "dims", "dtype"})
        if (name == taken)
          rule_error("/sides", fmt::format("'{}' is a member of rules; choose another name", name));
    map_.sides = {names[0], names[1]};
  }

  void read_options(const Json& options) {
    check_repeated_members(rule_object(options, "/options", "an object of options"), "/options");
    for (const auto& [name, option] : *options.as_object()) {
      const std::string pointer = "/options/" + pointer_step(name);
      check_rule_members(rule_object(option, pointer, "an option"), {"values", "default", "help"},
                         pointer);
      if (option.find("default") == nullptr) rule_error(pointer, "'default' is missing");
      MapOption out{name, {}, rule_expression(*option.find("default"), pointer + "/default"), ""};
      if (const Json* values = option.find("values"))
        out.values = rule_array(*values, pointer + "/values");
      if (const Json* help = option.find("help")) out.help = rule_string(*help, pointer + "/help");
      map_.options.push_back(std::move(out));
    }
  }

  // No name may stand for two things.
  void check_names() {
    std::set<std::string> taken = {"config", "source", "target"};
    const auto check = [&](const std::string& name, const std::string& place) {
      if (!taken.insert(name).second)
        rule_error(place + "/" + pointer_step(name), "the name is taken");
    };
    for (const MapOption& option : map_.options) check(option.name, "/options");
    for (const auto& entry : map_.let) check(entry.first, "/let");
    for (const auto& entry : map_.counts) check(entry.first, "/for");
  }

  void read_unmentioned(const Json& json) {
    const std::string text = rule_string(json, "/unmentioned");
    if (text == "keep")
      map_.unmentioned = Unmentioned::kKeep;
    else if (text == "drop")
      map_.unmentioned = Unmentioned::kDrop;
    else if (text != "error")
      rule_error("/unmentioned", "expected 'error', 'keep' or 'drop'");
  }

  MapRule parse_rule(const Json& json, const std::string& pointer) {
    const JsonObject& members = rule_object(json, pointer, "a rule");
    MapRule rule;
    rule.where = pointer;
    for (std::size_t side : {0U, 1U})
      if (const Json* names = json.find(map_.sides[side]))
        rule.names[side] = templates_of(*names, pointer + "/" + pointer_step(map_.sides[side]));
    if (rule.names[0].empty() && rule.names[1].empty())
      rule_error(pointer, fmt::format("no names; expected '{}', '{}' or both", map_.sides[0],
                                      map_.sides[1]));
    rule.condition = find_member(json, "if", pointer);
    rule.optional = find_member(json, "optional", pointer);
    if (const Json* counts = json.find("for"))
      rule.counts = rule_expressions(*counts, pointer + "/for");
    if (rule.names[0].empty() || rule.names[1].empty()) {
      JsonObject others;
      for (const auto& member : members)
        if (member.first != map_.sides[0] && member.first != map_.sides[1])
          others.push_back(member);
      read_one_sided(others, pointer, rule);
      return rule;
    }
    check_rule_members(members, {map_.sides[0], map_.sides[1], "do", "if", "for", "optional"},
                       pointer);
    if (const Json* steps = json.find("do")) rule.steps = steps_of(*steps, pointer + "/do");
    return rule;
  }

  ModelMap map_;
};

}  // namespace

bool is_model_map(const Json& document) {
  return document.find("sides") != nullptr || document.find("map") != nullptr;
}

ModelMap parse_model_map(const Json& document) { return MapParser().parse(document); }

}  // namespace cairn::inline v0
