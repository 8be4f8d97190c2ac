#include <cairn/tools/transform/rules_json.h>

#include <cairn/error.h>
#include <cairn/inspect.h>

#include <algorithm>

namespace cairn::inline v0 {

void rule_error(const std::string& pointer, const std::string& why) {
  throw Error(Code::kInvalidArgument,
              (pointer.empty() ? "(the whole document)" : pointer) + ": " + why);
}

Json parse_rules_document(std::string_view json) {
  constexpr std::size_t kMostDocumentBytes = std::size_t{16} << 20U;
  constexpr std::size_t kDeepest = 8;
  try {
    return parse_json(without_byte_order_mark(json),
                      {.max_depth = kDeepest, .max_bytes = kMostDocumentBytes});
  } catch (const Error& e) {
    throw Error(Code::kInvalidArgument, "the rules are not JSON: " + e.message());
  }
}

std::string pointer_step(std::string_view name) {
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

std::string rule_string(const Json& json, const std::string& pointer) {
  if (json.as_string() == nullptr)
    rule_error(pointer, "expected a string, not " + std::string(json.type_text()));
  if (json.as_string()->empty()) rule_error(pointer, "the string is empty");
  return *json.as_string();
}

std::int64_t rule_integer(const Json& json, const std::string& pointer) {
  const auto value = json.as_int64();
  if (!value) rule_error(pointer, "expected an integer, not " + std::string(json.type_text()));
  return *value;
}

const JsonArray& rule_array(const Json& json, const std::string& pointer) {
  if (json.as_array() == nullptr)
    rule_error(pointer, "expected a list, not " + std::string(json.type_text()));
  if (json.as_array()->empty()) rule_error(pointer, "the list is empty");
  return *json.as_array();
}

const JsonObject& rule_object(const Json& json, const std::string& pointer, std::string_view what) {
  if (json.as_object() == nullptr)
    rule_error(pointer, "expected " + std::string(what) + ", not " + std::string(json.type_text()));
  return *json.as_object();
}

void check_repeated_members(const JsonObject& members, const std::string& pointer) {
  for (std::size_t i = 0; i < members.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (members[j].first == members[i].first)
        rule_error(pointer + "/" + pointer_step(members[i].first), "the member appears twice");
}

void check_rule_members(const JsonObject& members, const std::vector<std::string_view>& known,
                        const std::string& pointer) {
  for (const auto& member : members) {
    const std::string& name = member.first;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string expected;
      for (const auto text : known) expected.append(expected.empty() ? "" : ", ").append(text);
      const std::vector<std::string> words(known.begin(), known.end());
      rule_error(pointer + "/" + pointer_step(name),
                 "unknown member; expected one of " + expected + did_you_mean(name, words));
    }
  }
  check_repeated_members(members, pointer);
}

}  // namespace cairn::inline v0
