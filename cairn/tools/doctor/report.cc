// report.cc -- the checks as a JSON document.
#include <cairn/tools/doctor/doctor.h>

#include <cairn/open.h>
#include <cairn/tools/report/json_text.h>

#include <algorithm>
#include <string_view>

namespace cairn::inline v0::doctor {
namespace {

std::string_view result_text(CheckResult result) {
  switch (result) {
    case CheckResult::kGood:
      return "good";
    case CheckResult::kNote:
      return "note";
    case CheckResult::kProblem:
      break;
  }
  return "problem";
}

Json check_json(const Check& check) {
  return JsonObject{{"section", check.section},
                    {"name", check.name},
                    {"result", result_text(check.result)},
                    {"value", check.bytes ? Json() : text_json(check.value)},
                    {"bytes", check.bytes ? Json(*check.bytes) : Json()},
                    {"advice", check.advice.empty() ? Json() : text_json(check.advice)}};
}

}  // namespace

std::string checks_json(const std::vector<Check>& checks, const std::string& path) {
  const bool ok = std::ranges::none_of(
      checks, [](const Check& c) { return c.result == CheckResult::kProblem; });
  JsonArray list;
  for (const Check& check : checks) list.push_back(check_json(check));
  const Json out = JsonObject{{"ok", ok},
                              {"version", version()},
                              {"path", path.empty() ? Json() : text_json(path)},
                              {"checks", std::move(list)}};
  return to_text(out, JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0::doctor
