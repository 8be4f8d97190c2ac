// python_str_test.cc -- values as Python's str() shows them. test_refusals compares with TensorStore.
#include <cairn/base/json/python_str.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

TEST(PythonStr, ValuesAreShownAsInPython) {
  const struct {
    const char *json, *text;
  } kCases[] = {
      {"null", "None"},
      {"true", "True"},
      {"-5", "-5"},
      {"18446744073709551615", "18446744073709551615"},
      {"123456789012345678901234567890", "1.2345678901234568e+29"},
      {"2.0", "2.0"},
      {"1e16", "1e+16"},
      {"1.5e-7", "1.5e-07"},
      {"\"it's\"", "it's"},  // a string itself has no quotes
      {"[]", "[]"},
      {"{}", "{}"},
      {R"({"b": [1, false], "a": null, "b": [2]})", "{'a': None, 'b': [2]}"},
      {R"(["it's", "\"", "'\"", "\\", "\n\t\r"])", R"(["it's", '"', '\'"', '\\', '\n\t\r'])"},
      {R"(["\u0000\u007f\u00a0\u200b\ue000", "\u00fc\u4e2d"])",
       "['\\x00\\x7f\\xa0\\u200b\\ue000', '\u00fc\u4e2d']"},
  };
  for (const auto& [json, text] : kCases) EXPECT_EQ(python_str(parse_json(json)), text) << json;
}

}  // namespace
}  // namespace cairn
