#include <cairn/kvstore/object/credentials/ini_file.h>
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;
using ::testing::Pair;

constexpr std::string_view kGoodIni =
    "\xef\xbb\xbf# keys\n"
    "[default]\r\n"
    "aws_access_key_id = A=B\r\n"
    " ; indented comment\n"
    "empty =\n"
    "\n"
    "[ profile dev ]\n"
    "region=eu-west-1\n"
    "s3 =\n"
    "  addressing_style = path\n"
    "\tendpoint_url=http://h\n"
    "long = a\n"
    "   more of a\n"
    "[default]\n"
    "aws_access_key_id = later\n"
    "other = x y  \n";

TEST(IniFile, Parses) {
  const IniFile file = parse_ini(kGoodIni);
  EXPECT_THAT(
      file, ElementsAre(
                Pair("default", ElementsAre(Pair("aws_access_key_id", "later"), Pair("empty", ""),
                                            Pair("other", "x y"))),
                Pair("profile dev", ElementsAre(Pair("long", "a"), Pair("region", "eu-west-1"),
                                                Pair("s3", ""), Pair("s3.addressing_style", "path"),
                                                Pair("s3.endpoint_url", "http://h")))));
  EXPECT_THAT(ini_value(file, "default", "other"), Optional(std::string("x y")));
  EXPECT_EQ(ini_value(file, "default", "empty"), std::nullopt);
  EXPECT_EQ(ini_value(file, "default", "none"), std::nullopt);
  EXPECT_EQ(ini_value(file, "none", "other"), std::nullopt);
  EXPECT_TRUE(parse_ini("").empty());
}

TEST(IniFile, RefusesDamageWithoutShowingIt) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"secret = 1", "line 1: it stands before the first [section]"},
      {"[a]\nsecret", "line 2: expected [section] or name = value"},
      {"[a]\n= secret", "line 2: expected [section] or name = value"},
      {"[a\nb = secret", "line 1: a section is [name]"},
      {"[]\nb = secret", "line 1: a section is [name]"},
      {"[", "line 1: a section is [name]"},
      {"[a]\n  b = secret", "line 2: an indented line follows no value"},
      {"  b = secret", "line 1: an indented line follows no value"},
      {"[a]\nb =\n secret", "line 3: expected [section] or name = value"},
      {"[a]\nb = secret\x01", "line 2: it holds characters that are not text"},
      {std::string("[a]\nb = secret\0", 15), "line 2: it holds characters that are not text"},
      {"[a]\nb = secret\xff", "line 2: it holds characters that are not text"},
      {"[a]\n\xef\xbb\xbf[b]\n\n\nsecret", "line 2: expected [section] or name = value"}};
  for (const auto& [text, why] : table) {
    const Error error = error_of([&damaged = text] { (void)parse_ini(damaged); });
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_EQ(error.message(), why) << text;
  }
}

TEST(IniFile, ParsesOrRefusesEveryTruncation) {
  for (std::size_t size = 0; size < kGoodIni.size(); ++size) {
    const std::string text(kGoodIni.substr(0, size));
    try {
      (void)parse_ini(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kInvalidArgument);
    }
  }
}

TEST(WordsOfCommand, AreThoseOfAShell) {
  const auto words = [](std::string_view text) {
    return words_of_command(text).value_or(std::vector<std::string>{"(none)"});
  };
  EXPECT_THAT(words("  a bc\t d "), ElementsAre("a", "bc", "d"));
  EXPECT_THAT(words(R"("/a b/c" --x='1 "2"' "" e\ f)"),
              ElementsAre("/a b/c", "--x=1 \"2\"", "", "e f"));
  EXPECT_THAT(words(R"("a\"b" 'c\d')"), ElementsAre("a\"b", "c\\d"));
  EXPECT_THAT(words(""), ElementsAre());
  EXPECT_THAT(words("\"a"), ElementsAre("(none)"));
  EXPECT_THAT(words("'a"), ElementsAre("(none)"));
  EXPECT_THAT(words("a\\"), ElementsAre("(none)"));
}

}  // namespace
}  // namespace cairn::object
