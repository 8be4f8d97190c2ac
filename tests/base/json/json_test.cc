#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::error_of;
using testing::FailsWith;

const std::string kGolden = std::string(CAIRN_GOLDEN_DIR) + "/json/python-3.11_tensorstore-0.1.86/";

std::string golden(const std::string& name) {
  const Bytes bytes = read_file(kGolden + name);
  return std::string(as_text(bytes));
}

// What another tool's compact spelling of `json` would be once its members are sorted.
Json sorted(const Json& json) {
  if (const auto* array = json.as_array()) {
    JsonArray out;
    for (const auto& e : *array) out.push_back(sorted(e));
    return out;
  }
  const auto* object = json.as_object();
  if (!object) return json;
  JsonObject out;
  for (const auto& [key, value] : *object) out.emplace_back(key, sorted(value));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

TEST(JsonGolden, PythonsTextIsReadAndSpelledTheSame) {
  const std::string text = golden("python.json");
  EXPECT_EQ(to_text(parse_json(text), JsonStyle::kPython), text);
}

TEST(JsonGolden, TensorStoresTextIsReadAndSpelledTheSame) {
  const std::string text = golden("tensorstore.json");
  EXPECT_EQ(to_text(parse_json(text)), text);
}

TEST(JsonGolden, BothHoldTheSameValue) {
  Json python = parse_json(golden("python.json"));
  JsonObject members = *python.as_object();
  std::erase_if(members, [](const auto& m) { return m.first == "special" || m.first == "big"; });
  EXPECT_EQ(sorted(members), parse_json(golden("tensorstore.json")));
}

TEST(JsonParse, Scalars) {
  EXPECT_TRUE(parse_json("null").is_null());
  EXPECT_TRUE(*parse_json("true").as_bool());
  EXPECT_FALSE(*parse_json("false").as_bool());
  EXPECT_EQ(*parse_json("\"x\"").as_string(), "x");
  EXPECT_EQ(parse_json(" \t\r\n7 \t\r\n").as_int64(), 7);
}

TEST(JsonParse, AByteOrderMarkIsAnErrorUnlessTheCallerSkipsIt) {
  constexpr std::string_view kMarked = "\xef\xbb\xbf{}";
  EXPECT_THAT([&] { parse_json(kMarked); }, FailsWith(Code::kDataLoss, "byte-order mark"));
  EXPECT_EQ(parse_json(without_byte_order_mark(kMarked)).as_object()->size(), 0U);
  EXPECT_EQ(without_byte_order_mark("{}"), "{}");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb"), "\xef\xbb");
}

TEST(JsonParse, IntegersAreExact) {
  EXPECT_EQ(parse_json("9007199254740993").as_int64(), 9007199254740993);
  EXPECT_EQ(parse_json("-9223372036854775808").as_int64(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_json("9223372036854775807").as_uint64(), 9223372036854775807U);
  const Json large = parse_json("18446744073709551615");
  EXPECT_EQ(large.as_uint64(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(large.as_int64(), std::nullopt);
  EXPECT_EQ(parse_json("-1").as_uint64(), std::nullopt);
  const Json big = parse_json("-123456789012345678901234567890");
  EXPECT_EQ(std::get<Json::BigInt>(big.value()).digits, "-123456789012345678901234567890");
  EXPECT_EQ(big.as_int64(), std::nullopt);
  EXPECT_EQ(big.as_double(), -123456789012345678901234567890.0);
  EXPECT_TRUE(big.is_number());
}

TEST(JsonParse, MinusZeroIsAnIntegerOnlyWithoutAFraction) {
  EXPECT_EQ(parse_json("-0").as_int64(), 0);
  const Json d = parse_json("-0.0");
  EXPECT_EQ(d.as_int64(), std::nullopt);
  EXPECT_TRUE(std::signbit(*d.as_double()));
}

TEST(JsonParse, DoublesRoundCorrectly) {
  EXPECT_EQ(parse_json("0.1").as_double(), 0.1);
  EXPECT_EQ(parse_json("1e5").as_double(), 1e5);
  EXPECT_EQ(parse_json("1E+5").as_double(), 1e5);
  EXPECT_EQ(parse_json("2.2250738585072012e-308").as_double(), 2.2250738585072012e-308);
  EXPECT_EQ(parse_json("5e-324").as_double(), 5e-324);
  EXPECT_EQ(parse_json("9007199254740992.99999999999999999999").as_double(), 9007199254740992.0);
  EXPECT_EQ(parse_json("1e-400").as_double(), 0.0);
  EXPECT_TRUE(std::signbit(*parse_json("-1e-400").as_double()));
  EXPECT_EQ(parse_json("0." + std::string(400, '0') + "1").as_double(), 0.0);
}

TEST(JsonParse, NotANumberAndInfinityAsPythonSpellsThem) {
  EXPECT_TRUE(std::isnan(*parse_json("NaN").as_double()));
  EXPECT_EQ(parse_json("Infinity").as_double(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_json("-Infinity").as_double(), -std::numeric_limits<double>::infinity());
  for (const char* other : {"Inf", "-Inf", "-NaN", "nan", "infinity", "+1", "NAN"})
    EXPECT_THAT([&] { parse_json(other); }, FailsWith(Code::kDataLoss, "invalid JSON")) << other;
}

TEST(JsonParse, StringsAndEscapes) {
  EXPECT_EQ(*parse_json(R"("\u00e9\u0000\ud83d\ude00\"\\\/\b\f\n\r\t")").as_string(),
            std::string("\u00e9\0\U0001f600\"\\/\b\f\n\r\t", 15));
  EXPECT_EQ(*parse_json("\"\uac00\ud7a3\"").as_string(), "\uac00\ud7a3")
      << "Hangul shares its lead byte with surrogates";
}

TEST(JsonParse, MembersKeepTheirOrderAndTheLastOfEqualOnesCounts) {
  const Json json = parse_json(R"({"b": 1, "a": 2, "b": 3})");
  EXPECT_EQ(json.as_object()->at(0).first, "b");
  EXPECT_EQ(json.as_object()->at(1).first, "a");
  EXPECT_EQ(json.find("b")->as_int64(), 3);
  EXPECT_EQ(json.find("c"), nullptr);
  EXPECT_EQ(parse_json("[1]").find("a"), nullptr);
}

TEST(JsonParse, RefusesWithTheByteWhereItIs) {
  const struct {
    std::string text;
    const char* expect;
  } kBad[] = {
      {"", "expected a value at byte 0"},
      {"  ", "expected a value at byte 2"},
      {"\xef\xbb\xbf", "it begins with a byte-order mark"},
      {"{", "expected a member name in quotes at byte 1"},
      {"{\"a\"}", "expected ':' after a member name at byte 4"},
      {"{\"a\":1", "expected ',' or '}' at byte 6"},
      {"{\"a\":1,}", "expected a member name in quotes at byte 7"},
      {"[1 2]", "expected ',' or ']' at byte 3"},
      {"[1,]", "not a value at byte 3"},
      {"[1]]", "text after the value at byte 3"},
      {"1 // x", "text after the value at byte 2"},
      {std::string("[1]\0", 4), "text after the value at byte 3"},
      {std::string("[1]\0[", 5), "text after the value at byte 3"},
      {std::string("[1\0]", 4), "expected ',' or ']' at byte 2"},
      {std::string("\"a\0b\"", 5), "a string without its closing quote"},
      {"\"abc", "a string without its closing quote"},
      {"\"\x01\"", "a control character or an unknown escape"},
      {"\"\\x\"", "a control character or an unknown escape"},
      {"\"\\u12g4\"", "\\u needs four hexadecimal digits"},
      {"\"\\ud800\"", "a lone surrogate escape"},
      {"\"\\ud800\\u0041\"", "a lone surrogate escape"},
      {"\"\\udc00\"", "a lone surrogate escape"},
      {"{\"\\udfff\":1}", "a lone surrogate escape"},
      {"01", "text after the value at byte 1"},
      {"1.", "expected a digit at byte 2"},
      {".5", "not a value at byte 0"},
      {"1e", "expected a digit at byte 2"},
      {"1e400", "too large for a double"},
      {"-1e309", "too large for a double"},
      {"tru", "not a value"},
      {"'a'", "not a value"},
  };
  for (const auto& bad : kBad)
    EXPECT_THAT([&] { parse_json(bad.text); }, FailsWith(Code::kDataLoss, bad.expect)) << bad.text;
}

TEST(JsonParse, RefusesTextThatIsNotUtf8) {
  for (const char* bad : {"\xff", "\x80", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xc3", "\xe2\x82"})
    EXPECT_THAT([&] { parse_json("\"" + std::string(bad) + "\""); },
                FailsWith(Code::kDataLoss, "UTF-8"));
}

TEST(JsonParse, DepthAndSizeAreBounded) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_NO_THROW(parse_json(nested(128)));
  EXPECT_THAT([&] { parse_json(nested(129)); },
              FailsWith(Code::kDataLoss, "nested deeper than 128 levels"));
  EXPECT_THAT([&] { parse_json(std::string(1U << 20U, '[')); },
              FailsWith(Code::kDataLoss, "nested deeper"));
  EXPECT_THAT([&] { parse_json(R"({"a":{"b":{}}})", {.max_depth = 2}); },
              FailsWith(Code::kDataLoss, "nested deeper than 2"));
  EXPECT_NO_THROW(parse_json("[[],[],[[]]]", {.max_depth = 3})) << "siblings do not add up";
  EXPECT_NO_THROW(parse_json(nested(4000), {.max_depth = 1000000}));
  EXPECT_THAT([&] { parse_json(nested(4001), {.max_depth = 1000000}); },
              FailsWith(Code::kDataLoss, "nested deeper than 4000 levels"));
  for (const char* bad : {"[1,]", "[1 2]", R"({"a" 1})", "{1: 2}", "[}", "[", "nul", "1 2", ""}) {
    const auto why = [&](std::size_t depth) {
      return error_of([&] { parse_json(bad, {.max_depth = depth}); }).message();
    };
    EXPECT_EQ(why(128), why(4000)) << bad;
  }
  EXPECT_THAT([&] { parse_json("[1, 2]", {.max_bytes = 5}); },
              FailsWith(Code::kDataLoss, "6 bytes is larger than the limit of 5"));
}

TEST(JsonParse, EveryTruncationOfAGoodTextIsRefused) {
  const std::string text = golden("python.json");
  testing::for_each_truncation(as_bytes(text), [](ByteView bad, const std::string& what) {
    EXPECT_THROW(parse_json(as_text(bad)), Error) << what;
  });
}

TEST(JsonParse, FlippedBitsAreRefusedOrAnotherValue) {
  const std::string text = golden("tensorstore.json");
  testing::for_each_bit_flip(as_bytes(text), [](ByteView bad, const std::string& what) {
    try {
      const Json json = parse_json(as_text(bad));
      EXPECT_EQ(parse_json(to_text(json)), json) << what;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kDataLoss) << what;
    }
  });
}

TEST(JsonValue, DoublesCountAsIntegersOnlyWhenAskedAndIntegral) {
  EXPECT_EQ(Json(5.0).as_int64(), std::nullopt);
  EXPECT_EQ(Json(5.0).as_int64(true), 5);
  EXPECT_EQ(Json(5.5).as_int64(true), std::nullopt);
  EXPECT_EQ(Json(-1.0).as_uint64(true), std::nullopt);
  EXPECT_EQ(Json(9223372036854775808.0).as_int64(true), std::nullopt);
  EXPECT_EQ(Json(9223372036854775808.0).as_uint64(true), 9223372036854775808U);
  EXPECT_EQ(Json(-9223372036854775808.0).as_int64(true), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Json(18446744073709551616.0).as_uint64(true), std::nullopt);
  EXPECT_EQ(Json(std::nan("")).as_int64(true), std::nullopt);
  EXPECT_EQ(Json("5").as_int64(true), std::nullopt);
}

TEST(JsonValue, SetReplacesOrAdds) {
  Json json;
  json.set("a", 1);
  json.set("b", "x");
  json.set("a", JsonArray{1, 2});
  EXPECT_EQ(to_text(json), R"({"a":[1,2],"b":"x"})");
  Json array;
  array.push_back(nullptr);
  array.push_back(true);
  EXPECT_EQ(to_text(array), "[null,true]");
  EXPECT_THAT([&] { array.set("a", 1); },
              FailsWith(Code::kInvalidArgument, "cannot be set in an array"));
  EXPECT_THAT([&] { json.push_back(1); },
              FailsWith(Code::kInvalidArgument, "cannot be added to an object"));
}

TEST(JsonValue, TypeText) {
  EXPECT_EQ(parse_json("null").type_text(), "null");
  EXPECT_EQ(parse_json("true").type_text(), "a boolean");
  EXPECT_EQ(parse_json("1e3").type_text(), "a number");
  EXPECT_EQ(parse_json("99999999999999999999").type_text(), "a number");
  EXPECT_EQ(parse_json("\"\"").type_text(), "a string");
  EXPECT_EQ(parse_json("[]").type_text(), "an array");
  EXPECT_EQ(parse_json("{}").type_text(), "an object");
}

TEST(JsonText, PrettyIsForPeople) {
  const Json json =
      parse_json(R"({"shape":[2,3],"codecs":[{"name":"zstd"},{}],"none":[],"u":"é"})");
  EXPECT_EQ(to_text(json, JsonStyle::kPretty), R"({
  "shape": [2, 3],
  "codecs": [
    {
      "name": "zstd"
    },
    {}
  ],
  "none": [],
  "u": "é"
})");
}

TEST(JsonText, RefusesTextThatIsNotUtf8) {
  for (const char* bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3"})
    for (const auto style : {JsonStyle::kCompact, JsonStyle::kPython, JsonStyle::kPretty})
      EXPECT_THAT([&] { (void)to_text(Json(std::string("ab") + bad), style); },
                  FailsWith(Code::kInvalidArgument, "not valid UTF-8 at byte 2"));
}

TEST(JsonText, EveryDoubleReadsBackTheSame) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    // Half of them any bit pattern, half of them near the sizes where the spelling changes.
    const double v = i % 2 == 0 ? std::bit_cast<double>(random())
                                : std::ldexp(static_cast<double>(random() >> 40U),
                                             static_cast<int>(random() % 80) - 50);
    for (const auto style : {JsonStyle::kCompact, JsonStyle::kPython}) {
      const std::string text = to_text(Json(v), style);
      const Json back = parse_json(text);
      ASSERT_TRUE(std::holds_alternative<double>(back.value())) << text;
      if (std::isnan(v))
        ASSERT_TRUE(std::isnan(*back.as_double()));
      else
        ASSERT_EQ(std::bit_cast<std::uint64_t>(*back.as_double()), std::bit_cast<std::uint64_t>(v))
            << text;
    }
  }
}

}  // namespace
}  // namespace cairn
