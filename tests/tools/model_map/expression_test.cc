// expression_test.cc -- expressions of two-sided rules: the values that Python gives, and errors.
#include <cairn/tools/model_map/expression.h>
#include <gmock/gmock.h>

#include <map>
#include <string>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

class Values final : public ValueNames {
 public:
  std::map<std::string, Json, std::less<>> values = {
      {"config", parse_json(R"({"head_dim": null, "hidden_size": 96, "num_heads": 4, "a": [3, 5],
                                "rope": {"type": "llama3"}, "tied": true})")},
      {"E", 64},
      {"name", "gate"},
      {"none", nullptr}};

  [[nodiscard]] const Json* find(std::string_view name) const override {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::vector<std::string> all() const override { return {"config", "E", "name"}; }
  [[nodiscard]] Json call(std::string_view function,
                          const std::vector<Json>& arguments) const override {
    if (function != "count") throw Error(Code::kInvalidArgument, "there is no such function");
    return static_cast<std::int64_t>(arguments.size());
  }
};

Json value_of(const std::string& text) { return Expression(text).evaluate(Values()); }

TEST(Expression, HasTheValuesOfPython) {
  const std::pair<const char*, Json> cases[] = {
      {"1 + 2 * 3", 7},
      {"-2 ** 2", -4},
      {"2 ** 3 ** 2", 512},
      {"(1 + 2) * 3", 9},
      {"7 // 2", 3},
      {"-7 // 2", -4},
      {"7 // -2", -4},
      {"-7 % 3", 2},
      {"7 % -3", -2},
      {"7.5 // 2", 3.0},
      {"-7.5 % 2", 0.5},
      {"1 / 4", 0.25},
      {"16 ** -0.5", 0.25},
      {"(-1) ** 101", -1},
      {"0 ** 0", 1},
      {"1 if none else 2", 2},
      {"'a' if 1 < 2 else 'b' if E else 'c'", "a"},
      {"config.head_dim or config.hidden_size // config.num_heads", 24},
      {"config.missing", nullptr},
      {"config.missing.deeper", nullptr},
      {"config.rope.type == 'llama3'", true},
      {"none + 1", nullptr},
      {"none * 2 or 5", 5},
      {"none == 1", false},
      {"none != null", false},
      {"config.a[0] + config.a[-1]", 8},
      {"config['hidden_size']", 96},
      {"[1, 2, 3][1]", 2},
      {"len([1, 2])", 2},
      {"'x' in ['x', 'y']", true},
      {"'z' not in ['x', 'y']", true},
      {"'at' in name", true},
      {"not none and not false", true},
      {"not 1 == 2", true},
      {"true and 3", 3},
      {"false or null", nullptr},
      {"sqrt(E)", 8.0},
      {"int(7.9)", 7},
      {"ceil(7.1)", 8},
      {"floor(-7.1)", -8},
      {"max(1, 2.5, 2)", 2.5},
      {"min(E, 3)", 3},
      {"str(E) + 'x'", "64x"},
      {"bfloat16(50.596443)", 50.5},
      {"float32(0.1) == 0.1", false},
      {"count(1, 'a', [2])", 3},
      {"\"double\"", "double"},
      {"1e3", 1000.0},
      {"9223372036854775807", std::int64_t{9223372036854775807}},
  };
  for (const auto& [text, expected] : cases) {
    const Json found = value_of(text);
    EXPECT_TRUE(found == expected) << text << ": " << to_text(found);
  }
}

TEST(Expression, RefusesWhatIsNotDefined) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected a value"},
      {"1 +", "expected a value at character 3"},
      {"1 2", "expected the end"},
      {"(1", "expected ')'"},
      {"'a", "closing quote"},
      {"f(1", "',' or ')'"},
      {"1 if 2", "expected 'else'"},
      {"unknown", "'unknown' is not a value"},
      {"names", "did you mean 'name'"},
      {"1 // 0", "division by zero"},
      {"1 % 0", "division by zero"},
      {"1.0 / 0", "division by zero"},
      {"9223372036854775807 + 1", "64 bits"},
      {"2 ** 64", "64 bits"},
      {"1e308 * 10", "not a finite number"},
      {"sqrt(-1)", "not a finite number"},
      {"'a' * 2", "expected a number"},
      {"config.a[2]", "element 2 of a list of 2"},
      {"E.member", "has no member"},
      {"sqrt(1, 2)", "takes one argument"},
      {"unknown(1)", "no such function"},
      {"1 in 2", "cannot be in"},
      {"int(1e30)", "64 bits"},
  };
  for (const auto& c : cases)
    EXPECT_THAT([&] { value_of(c.first); }, FailsWith(Code::kInvalidArgument, c.second)) << c.first;
  EXPECT_THAT([] { value_of(std::string(1000, '(') + "1" + std::string(1000, ')')); },
              FailsWith(Code::kInvalidArgument, "too many brackets"));
  EXPECT_TRUE(value_of(std::string(1000, '-') + "1") == Json(1));
}

TEST(Expression, KnowsItsNames) {
  EXPECT_THAT(Expression("2*j + config.x[j] + f(k, 'name')").names(),
              ::testing::ElementsAre("j", "config", "k"));
}

}  // namespace
}  // namespace cairn
