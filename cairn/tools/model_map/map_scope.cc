#include <cairn/tools/model_map/map_scope.h>

#include <cairn/base/errors.h>
#include <cairn/inspect.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cairn::inline v0 {
namespace {

Json given_value(const std::string& text) {
  const auto json =
      try_call([&] { return parse_json(text, {.max_depth = 8, .max_bytes = 65536}); });
  return json ? json.value() : Json(text);
}

void check_names(const MapInput& input) {
  std::vector<std::string> names;
  for (const MapOption& option : input.map.options) names.push_back(option.name);
  for (const auto& entry : input.map.let) names.push_back(entry.first);
  for (const auto& entry : input.values)
    if (std::ranges::find(names, entry.first) == names.end())
      invalid_argument(fmt::format("the map has no value '{}'{}", printable_text(entry.first),
                                   did_you_mean(entry.first, names)));
}

void check_option(const MapOption& option, const Json& value) {
  if (option.values.empty() || std::ranges::find(option.values, value) != option.values.end())
    return;
  std::string allowed;
  for (const Json& one : option.values) allowed += (allowed.empty() ? "" : ", ") + to_text(one);
  invalid_argument(
      fmt::format("{} = {}: expected one of {}", option.name, shown_value(value), allowed));
}

}  // namespace

std::vector<TransformValue> set_map_values(const MapInput& input, std::size_t from, Scope& scope) {
  check_names(input);
  std::map<std::string, std::string> given(input.values.begin(), input.values.end());
  std::vector<TransformValue> values;
  const auto set = [&](const std::string& name, const Expression& expression,
                       const char* otherwise) {
    const auto own = given.find(name);
    Json value = own != given.end() ? given_value(own->second) : expression.evaluate(scope);
    // Objects are not listed: they are the configuration, or parts of it.
    if (value.as_object() == nullptr)
      values.push_back({name, to_text(value), own != given.end() ? "given" : otherwise});
    scope.set(name, value);
    return value;
  };
  scope.set("config", input.config);
  scope.set("source", input.map.sides[from]);
  scope.set("target", input.map.sides[1 - from]);
  for (const MapOption& option : input.map.options)
    with_context([&] { return "/options/" + option.name; },
                 [&] { check_option(option, set(option.name, option.default_value, "default")); });
  for (const auto& [name, expression] : input.map.let)
    with_context([&, &n = name] { return "/let/" + n; },
                 [&, &n = name, &e = expression] { set(n, e, "computed"); });
  return values;
}

}  // namespace cairn::inline v0
