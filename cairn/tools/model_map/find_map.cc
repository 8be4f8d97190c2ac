#include <cairn/tools/model_map/find_map.h>

#include <cairn/convert.h>
#include <cairn/inspect.h>
#include <cairn/io/file.h>
#include <cairn/tools/model_map/parse_steps.h>
#include <cairn/tools/model_map/shipped_maps.h>
#include <cairn/tools/report/json_text.h>
#include <cairn/tools/transform/rules_json.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

const ShippedMap* find_shipped(std::string_view name) {
  const auto maps = shipped_maps();
  const auto found = std::ranges::find(maps, name, &ShippedMap::name);
  return found == maps.end() ? nullptr : &*found;
}

[[noreturn]] void unknown_map(const std::string& name) {
  std::vector<std::string> names;
  for (const ShippedMap& map : shipped_maps()) names.emplace_back(map.name);
  throw Error(
      Code::kNotFound,
      fmt::format("there is no model map '{}' (Cairn has {}; the name of a file has a '/' or "
                  "ends with .json){}",
                  printable_text(name), fmt::join(names, ", "), did_you_mean(name, names)));
}

// Gives options and values of a map other expressions.
void override_values(const Json& set, ModelMap& map) {
  for (auto& [name, expression] : rule_expressions(set, "/set")) {
    const auto option = std::ranges::find(map.options, name, &MapOption::name);
    const auto let =
        std::ranges::find(map.let, name, [](const auto& entry) { return entry.first; });
    if (option != map.options.end())
      option->default_value = std::move(expression);
    else if (let != map.let.end())
      let->second = std::move(expression);
    else
      rule_error("/set/" + pointer_step(name), "the other map has no such option or value");
  }
}

ModelMap derived_map(const Json& document) {
  check_rule_members(*document.as_object(), {"title", "sources", "tested", "map", "set"}, "");
  const std::string name = rule_string(*document.find("map"), "/map");
  const ShippedMap* other = find_shipped(name);
  if (other == nullptr) rule_error("/map", "Cairn has no map of this name");
  const Json base = parse_rules_document(other->json);
  if (base.find("map") != nullptr)
    rule_error("/map", "this map has the rules of another one; name that one");
  ModelMap map = parse_model_map(base);
  if (const Json* title = document.find("title")) map.title = rule_string(*title, "/title");
  if (const Json* texts = document.find("sources"))
    map.sources = rule_list(*texts, "/sources", rule_string);
  if (const Json* texts = document.find("tested"))
    map.tested = rule_list(*texts, "/tested", rule_string);
  if (const Json* set = document.find("set")) override_values(*set, map);
  return map;
}

ModelMapInfo info_of(std::string name, const ModelMap& map) {
  ModelMapInfo info{std::move(name), map.title, map.sides[0], map.sides[1], {},
                    map.sources,     map.tested};
  for (const MapOption& option : map.options) {
    std::vector<std::string> values;
    for (const Json& value : option.values) values.push_back(to_text(value));
    info.options.push_back(
        {option.name, std::move(values), option.default_value.text(), option.help});
  }
  return info;
}

}  // namespace

std::string read_rules_file(const std::string& path) {
  constexpr std::uint64_t kMostRuleBytes = std::uint64_t{16} << 20U;
  return std::string(as_text(read_file(path, kMostRuleBytes)));
}

std::string map_text(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".json")) return read_rules_file(name);
  const ShippedMap* map = find_shipped(name);
  if (map == nullptr) unknown_map(name);
  return std::string(map->json);
}

ModelMap parse_map(const Json& document) {
  if (document.find("map") != nullptr && document.find("sides") == nullptr)
    return derived_map(document);
  return parse_model_map(document);
}

std::vector<ModelMapInfo> model_maps() {
  std::vector<ModelMapInfo> infos;
  for (const ShippedMap& map : shipped_maps())
    infos.push_back(info_of(std::string(map.name), parse_map(parse_rules_document(map.json))));
  return infos;
}

ModelMapInfo model_map(const std::string& map) {
  const std::string text = map_text(map);
  return with_context([&] { return map; },
                      [&] { return info_of(map, parse_map(parse_rules_document(text))); });
}

std::string model_maps_json(const std::vector<ModelMapInfo>& maps) {
  JsonArray out;
  for (const ModelMapInfo& map : maps) {
    JsonArray options;
    for (const ModelMapOption& option : map.options)
      options.push_back(JsonObject{{"name", text_json(option.name)},
                                   {"values", strings_json(option.values)},
                                   {"default", text_json(option.default_value)},
                                   {"help", text_json(option.help)}});
    out.push_back(JsonObject{{"name", text_json(map.name)},
                             {"title", text_json(map.title)},
                             {"first_side", text_json(map.first_side)},
                             {"second_side", text_json(map.second_side)},
                             {"sources", strings_json(map.sources)},
                             {"tested", strings_json(map.tested)},
                             {"options", std::move(options)}});
  }
  return to_text(Json(std::move(out)), JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
