// json_scan_test.cc -- the pull scanner agrees with the parser on what is JSON, and with its caller
// on what is there.
#include <cairn/base/json/json.h>
#include <cairn/base/json/scan.h>
#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;

TEST(JsonScan, PullsNestedValues) {
  JsonScanner in(
      " {\"a\" : [1, -2 ,3], \"b\":{\"c\":true,\"d\":null} , "
      "\"e\":\"x\\u00e9\\ud83d\\ude00\\n\\/\", \"f\":[], \"g\":{}}\n");
  std::string_view key;
  std::vector<std::int64_t> numbers;
  in.begin_object();
  ASSERT_TRUE(in.next_member(key));
  EXPECT_EQ(key, "a");
  in.begin_array();
  while (in.next_item()) numbers.push_back(in.integer());
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, -2, 3}));
  ASSERT_TRUE(in.next_member(key));
  in.begin_object();
  ASSERT_TRUE(in.next_member(key));
  EXPECT_TRUE(in.boolean());
  ASSERT_TRUE(in.next_member(key));
  EXPECT_EQ(key, "d");
  EXPECT_TRUE(in.null());
  EXPECT_FALSE(in.next_member(key));
  ASSERT_TRUE(in.next_member(key));
  EXPECT_FALSE(in.null());
  EXPECT_EQ(in.string(), "x\xc3\xa9\xf0\x9f\x98\x80\n/");
  ASSERT_TRUE(in.next_member(key));
  EXPECT_EQ(in.skip(), "[]");
  ASSERT_TRUE(in.next_member(key));
  in.begin_object();
  EXPECT_FALSE(in.next_member(key));
  EXPECT_FALSE(in.next_member(key));
  in.finish();
}

// Everything parse_json takes is passed over whole, everything it refuses is refused.
TEST(JsonScan, SkipsExactlyWhatTheParserTakes) {
  const std::vector<std::string> texts = {"null",
                                          "true",
                                          "false",
                                          "0",
                                          "-0",
                                          "1.5e-7",
                                          "-12E+3",
                                          "NaN",
                                          "Infinity",
                                          "-Infinity",
                                          "\"\"",
                                          "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\"",
                                          "[1,[2,[3,{}]]]",
                                          "{\"a\":[{}],\"a\":2}",
                                          " [ ] ",
                                          "\"\xf0\x90\x80\x80\"",
                                          "1 2",
                                          "",
                                          " ",
                                          "nul",
                                          "tru",
                                          "[1,]",
                                          "[,1]",
                                          "{,}",
                                          "{\"a\"}",
                                          "{\"a\":}",
                                          "{\"a\":1,}",
                                          "{a:1}",
                                          "[1",
                                          "{\"a\":1",
                                          "\"",
                                          "\"\\",
                                          "\"\\x\"",
                                          "\"\\u12\"",
                                          "\"\\ud800\"",
                                          "\"\\udc00\"",
                                          "\"\\ud800\\u0041\"",
                                          "\"\n\"",
                                          "01",
                                          "-",
                                          "1.",
                                          "1e",
                                          ".5",
                                          "+1",
                                          "'a'",
                                          "\"\xff\"",
                                          "\"\xc0\x80\"",
                                          "\"\xed\xa0\x80\"",
                                          "\"\xf5\x80\x80\x80\"",
                                          "\"\xe2\x82\"",
                                          "]",
                                          "}",
                                          "[}",
                                          "{]",
                                          "/**/1",
                                          "[1]x",
                                          "\xef\xbb\xbf"
                                          "1",
                                          "-I",
                                          "N",
                                          "[true false]",
                                          "{\"a\" 1}"};
  for (const auto& text : texts) {
    const bool taken = try_call([&] { return parse_json(text); }).ok();
    const auto skipped = try_call([&] {
      JsonScanner in(text);
      std::string value(in.skip());
      in.finish();
      return value;
    });
    EXPECT_EQ(skipped.ok(), taken) << text;
    if (taken && skipped) {
      EXPECT_EQ(to_text(parse_json(skipped.value())), to_text(parse_json(text)));
    }
  }
}

// The scanner looks at eight bytes at a time; every byte may stand at every place among them.
TEST(JsonScan, EveryByteAtEveryPlaceOfAString) {
  for (std::size_t place = 0; place < 18; ++place) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string inner(19, 'x');
      inner[place] = static_cast<char>(byte);
      if (byte == '\\') inner[place + 1] = 'n';
      const std::string text = '"' + inner + '"';
      JsonScanner skipped(text);
      JsonScanner read(text);
      const bool valid = byte >= ' ' && byte < 0x80;
      if (!valid) {
        EXPECT_THAT([&] { skipped.skip(); }, FailsWith(Code::kDataLoss)) << place << ' ' << byte;
        EXPECT_THAT([&] { read.string(); }, FailsWith(Code::kDataLoss)) << place << ' ' << byte;
        continue;
      }
      std::string expected = inner;
      if (byte == '\\') expected.replace(place, 2, "\n");
      if (byte == '"') expected.resize(place);
      EXPECT_EQ(read.string(), expected);
      EXPECT_EQ(skipped.skip(), text.substr(0, byte == '"' ? place + 2 : text.size()));
    }
  }
}

TEST(JsonScan, EveryEscape) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = {'"', '\\', static_cast<char>(byte), '"', '"'};
    const std::size_t found = kEscapes.find(static_cast<char>(byte));
    JsonScanner skipped(text);
    JsonScanner read(text);
    if (found == std::string_view::npos) {
      EXPECT_THAT([&] { skipped.skip(); }, FailsWith(Code::kDataLoss)) << byte;
      EXPECT_THAT([&] { read.string(); }, FailsWith(Code::kDataLoss)) << byte;
      continue;
    }
    EXPECT_EQ(read.string(), std::string(1, kMeant[found]));
    EXPECT_EQ(skipped.skip(), text.substr(0, 4));
  }
}

TEST(JsonScan, NestingIsBounded) {
  const std::string deep(100000, '[');
  const auto skipped = try_call([&] { return std::string(JsonScanner(deep).skip()); });
  ASSERT_FALSE(skipped.ok());
  EXPECT_EQ(skipped.error().code(), Code::kDataLoss);
  EXPECT_THAT(skipped.error().message(), HasSubstr("levels deep"));
}

template <class F>
void expect_refused(const char* text, F f, const char* message) {
  JsonScanner in(text);
  try {
    f(in);
    FAIL() << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kDataLoss);
    EXPECT_THAT(e.message(), HasSubstr(message)) << text;
  }
}

TEST(JsonScan, NamesWhatItExpected) {
  const auto integer = [](JsonScanner& in) { in.integer(); };
  expect_refused("1.5", integer, "expected a 64-bit integer at byte 0");
  expect_refused(" 99999999999999999999", integer, "expected a 64-bit integer at byte 1");
  expect_refused("\"1\"", integer, "expected an integer at byte 0");
  expect_refused(
      "1", [](JsonScanner& in) { in.boolean(); }, "expected true or false");
  expect_refused(
      "[]", [](JsonScanner& in) { in.begin_object(); }, "expected an object at byte 0");
  expect_refused(
      "{}", [](JsonScanner& in) { in.begin_array(); }, "expected an array");
  expect_refused(
      "3", [](JsonScanner& in) { (void)in.string(); }, "expected a string");
  expect_refused(
      "1 x", [](JsonScanner& in) { in.integer(), in.finish(); }, "unexpected text");
  expect_refused(
      "", [](JsonScanner& in) { in.peek(); }, "unexpected end");
}

}  // namespace
}  // namespace cairn
