// rules_json.h -- reads the members of rules. Anything that a rule does not know is an error, which
// names the place by its JSON pointer, so that no typing mistake goes unnoticed.
#pragma once

#include <cairn/base/json/json.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Throws invalid_argument: "/rules/3/axis: why".
[[noreturn]] void rule_error(const std::string& pointer, const std::string& why);

// Parses a file of rules. Throws invalid_argument for text that is not JSON, too deep or too large.
Json parse_rules_document(std::string_view json);

// A member name in a JSON pointer.
std::string pointer_step(std::string_view name);
// A string that is not empty.
std::string rule_string(const Json& json, const std::string& pointer);
std::int64_t rule_integer(const Json& json, const std::string& pointer);
// A list that is not empty. Throws unless it is one.
const JsonArray& rule_array(const Json& json, const std::string& pointer);
// Throws unless it is an object. `what`: "a rule".
const JsonObject& rule_object(const Json& json, const std::string& pointer, std::string_view what);

// The items of a list that is not empty, each read with its pointer.
template <class Read>
auto rule_list(const Json& json, const std::string& pointer, Read read) {
  std::vector<decltype(read(json, pointer))> out;
  for (const Json& item : rule_array(json, pointer))
    out.push_back(read(item, pointer + "/" + std::to_string(out.size())));
  return out;
}

// Throws for a member that appears twice, and for one that is not in `known`.
void check_rule_members(const JsonObject& members, const std::vector<std::string_view>& known,
                        const std::string& pointer);
// Throws for a member that appears twice.
void check_repeated_members(const JsonObject& members, const std::string& pointer);

}  // namespace cairn::inline v0
