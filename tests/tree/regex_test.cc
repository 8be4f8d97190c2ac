// regex_test.cc -- Python's regular expressions. Each expectation is what Python 3.11's re says;
// interop/test_transforms.py asks it live.
#include <cairn/error.h>
#include <cairn/tree/transform/regex.h>
#include <gmock/gmock.h>

namespace cairn {
namespace {

using ::testing::HasSubstr;

// The groups that matched, "-" for those that took no part; "no" for no match.
std::string match(const std::string& pattern, const std::string& text) {
  Regex regex(pattern);
  const auto groups = regex.full_match(text);
  if (!groups) return "no";
  std::string out;
  for (std::size_t i = 1; i < groups->size(); ++i)
    out += (i > 1 ? "," : "") + std::string((*groups)[i].value_or("-"));
  return out.empty() ? "yes" : out;
}

TEST(Regex, MatchesTheWholeTextAsPythonDoes) {
  const struct {
    const char *pattern, *text, *expect;
  } kCases[] = {
      {"a", "a", "yes"},
      {"a", "ab", "no"},
      {"", "", "yes"},
      {"a|ab", "ab", "yes"},  // backtracks until the whole text is used
      {"(.*)a(.*)", "params/a/b/a/c", "params/a/b/,/c"},
      {"(a)|(b)", "b", "-,b"},
      {"(a)?\\1b", "b", "no"},
      {"(?P<n>x+)(?P=n)", "xxxx", "xx"},
      {"a$", "a\n", "no"},
      {"a$\\n", "a\n", "yes"},
      {"a\\Z", "a", "yes"},
      {"a\\Z\\n", "a\n", "no"},
      {".", "\r", "yes"},
      {".", "\n", "no"},
      {"(?s).", "\n", "yes"},
      {"\\B", "", "no"},
      {"a\\Bb", "ab", "yes"},
      {"a{,2}", "aa", "yes"},
      {"a{,}", "aaaa", "yes"},
      {"a{x}", "a{x}", "yes"},
      {"a{}", "a{}", "yes"},
      {"\\v", "\x0b", "yes"},
      {"\\x41\\u0042\\U00000043", "ABC", "yes"},
      {"\\101", "A", "yes"},
      {"[[:alpha:]]", ":]", "yes"},  // no POSIX class
      {"[]a]+", "a]", "yes"},
      {"[^]a]", "b", "yes"},
      {"[\\b\\101]", "A", "yes"},
      {"(?i)WEIGHT", "weight", "yes"},
      {"(?i:W)eight", "weight", "yes"},
      {"\\d", "\u0663", "yes"},
      {"(?a)\\d", "\u0663", "no"},
      {".", "\u00e9", "yes"},
      {"(?(1)a|b)", "b", "refused"},
      {"(?(2)a|b)(c)", "bc", "refused"},
      {"(?(1)a|b)(c)", "bc", "c"},
      {"(?:(?(1)a|b)(c))*", "bcac", "c"},
      {"(x)?(?(1)a|b)", "xa", "x"},
      {"(?>a*)a", "aaa", "no"},
      {"a*+a", "aaa", "no"},
      {"a(?#hm)b", "ab", "yes"},
      {"\\.\\-\\/", ".-/", "yes"},
      {"layers/(\\d+)/(?!bias)(\\w+)", "layers/12/kernel", "12,kernel"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.pattern);
    if (std::string_view(c.expect) == "refused")
      EXPECT_THROW(Regex{c.pattern}, Error);
    else
      EXPECT_EQ(match(c.pattern, c.text), c.expect);
  }
}

TEST(Regex, BadPatternsNameThePosition) {
  const struct {
    const char *pattern, *why;
    int position;
  } kCases[] = {
      {"(", "missing ), unterminated subpattern", 0},
      {"a)", "unbalanced parenthesis", 1},
      {"*a", "nothing to repeat", 0},
      {"a**", "multiple repeat", 2},
      {"a{2}{3}", "multiple repeat", 4},
      {"^*", "nothing to repeat", 1},
      {"(?:*)", "nothing to repeat", 3},
      {"[a", "unterminated character set", 0},
      {"[b-a]", "bad character range b-a", 1},
      {"x[\\d-z]", "bad character range \\d-z", 2},
      {"[a-\\w]", "bad character range a-\\w", 1},
      {"[\u00fc-\u00e9]", "bad character range \u00fc-\u00e9", 1},
      {"[\\x62-\\x61]", "bad character range \\x-\\x", 5},
      {"[b-", "unterminated character set", 0},
      {"\\q", "bad escape \\q", 0},
      {"\\Qa\\E", "bad escape \\Q", 0},
      {"\\K", "bad escape \\K", 0},
      {"\\p{L}", "bad escape \\p", 0},
      {"a\\", "bad escape (end of pattern)", 1},
      {"\\x4", "incomplete escape \\x4", 0},
      {"\\1", "invalid group reference 1", 1},
      {"(a\\1)", "cannot refer to an open group", 2},
      {"(?R)", "unknown extension", 1},
      {"(?1)", "unknown extension", 1},
      {"(?<n>a)", "unknown extension", 1},
      {"(*FAIL)", "nothing to repeat", 1},
      {"(?P<1>a)", "bad character in group name", 4},
      {"(?P<a>.)(?P<a>.)", "redefinition of group name 'a' as group 2; was group 1", 12},
      {"a(?i)", "global flags not at the start", 1},
      {"(?x)a", "not supported", 2},
      {"\u00e9(", "missing )", 1},
      {"(?<=a*)b", "look-behind requires fixed-width pattern", 0},
      {"(?<=(a)\\1)b", "cannot refer to group defined in the same lookbehind subpattern", 9},
      {"\\U0011ffff", "bad escape \\U0011ffff", 0},
      {"[\\N{DIGIT ONE}]", "not supported", 1},
      {"\\400", "octal escape value \\400 outside of range 0-0o377", 0},
      {"\\N{DIGIT ONE}", "not supported", 0},
      {"(?P=a)", "unknown group name", 4},
      {"[\\q]", "bad escape", 0},
      {"(?", "unexpected end of pattern", 2},
      {"(?P", "unexpected end of pattern", 3},
      {"(?Px", "unknown extension ?Px", 1},
      {"(?<\\x", "unknown extension ?<\\x", 1},
      {"(?i", "missing -, : or )", 3},
      {"(?i*)", "missing -, : or )", 3},
      {"(?ib)", "unknown flag", 3},
      {"(?i-)", "missing flag", 4},
      {"(?i-s)", "missing :", 5},
      {"(?i-i:a)", "flag turned on and off", 5},
      {"(?-a:a)", "cannot turn off", 4},
      {"(?L:a)", "cannot use 'L'", 3},
      {"(?au)", "are incompatible", 4},
      {"(?P<", "missing group name", 4},
      {"(?P<>.)", "missing group name", 4},
      {"(?P<a", "missing >, unterminated name", 4},
      {"a{3,1}", "min repeat greater than max repeat", 2},
      {"(a)(?(1)b|c|d)", "more than two branches", 11},
      {"(?(1)a", "missing ), unterminated subpattern", 0},
      {"(?(9)a)", "invalid group reference 9", 3},
      {"a{70000}", "the repetition number is too large", 1},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.pattern);
    const auto result = try_call([&] { return Regex(c.pattern).pattern(); });
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(result.error().message(), HasSubstr(c.why));
    EXPECT_THAT(result.error().message(), HasSubstr(c.pattern));
    if (c.position > 0) {
      EXPECT_THAT(result.error().message(), HasSubstr("at position " + std::to_string(c.position)));
    }
  }
  EXPECT_THROW(Regex("\xff"), Error);
  EXPECT_THROW(Regex(std::string(5000, 'a')), Error);
  EXPECT_THROW(Regex(std::string(1000, '(') + std::string(1000, ')')), Error);
}

TEST(Regex, PatternsThatBacktrackWithoutEndStop) {
  for (const char* pattern : {"(a+)+b", "(a|aa)+b", "(.*)*x", "((a?){30}){30}a{900}b"}) {
    Regex regex(pattern);
    const auto result =
        try_call([&] { return regex.full_match(std::string(2000, 'a') + "bx").has_value(); });
    if (!result.ok()) {
      EXPECT_THAT(result.error().message(), HasSubstr("limit")) << pattern;
    }
  }
  Regex evil("(a+)+b");
  EXPECT_THROW((void)evil.full_match(std::string(2000, 'a') + "bx"), Error);
}

TEST(Regex, TextThatIsNotUtf8IsRefused) {
  Regex regex(".*");
  EXPECT_THROW((void)regex.full_match("\xff"), Error);
}

std::string expand(const std::string& pattern, const std::string& text, const std::string& into) {
  Regex regex(pattern);
  return regex.expand(into, regex.full_match(text).value());
}

TEST(Regex, TemplatesAreExpandedAsPythonDoes) {
  EXPECT_EQ(expand("(.*)a(.*)", "xay", "\\1b\\2"), "xby");
  EXPECT_EQ(expand("(?P<n>.*)a", "xa", "\\g<n>/\\g<1>/\\g<0>"), "x/x/xa");
  EXPECT_EQ(expand("(a)|(b)", "b", "[\\1\\2]"), "[b]");
  EXPECT_EQ(expand("a", "a", "\\.\\\\\\n\\101\\0"), std::string("\\.\\\nA\0", 6));
  EXPECT_EQ(expand("a", "a", "\\351"), "\u00e9");
  for (const char* bad : {"\\1", "\\g<1>", "\\g<x>", "\\g", "\\g<", "\\g<>", "\\g<99999999999>",
                          "\\q", "\\", "\\400"})
    EXPECT_THROW(expand("a", "a", bad), Error) << bad;
}

std::string replaced(std::string_view pattern, std::string_view text, std::string_view with) {
  Regex regex(pattern, Regex::Extent::kPart);
  regex.check_template(with);
  return regex.replace_all(text, with);
}

TEST(Regex, EveryMatchIsReplacedAsPythonsSubDoes) {
  EXPECT_EQ(replaced("b", "abcb", "x"), "axcx");
  EXPECT_EQ(replaced("x*", "abxd", "-"), "-a-b--d-");
  EXPECT_EQ(replaced("^|$", "ab", "|"), "|ab|");
  EXPECT_EQ(replaced("\\b", "ab cd", "|"), "|ab| |cd|");
  EXPECT_EQ(replaced("", "", "x"), "x");
  EXPECT_EQ(replaced("", "\u00e9\u65e5", "-"), "-\u00e9-\u65e5-");  // between characters, not bytes
  // sees what has been replaced before
  EXPECT_EQ(replaced("(?<=a)b", "abb", "x"), "axb");
  EXPECT_EQ(replaced("a", std::string_view("a\0a", 3), "b"), std::string_view("b\0b", 3));
  EXPECT_EQ(replaced("nothing", "text", "x"), "text");
}

TEST(Regex, ReplacesMatches) {
  EXPECT_EQ(replaced("(\\w)(\\d)?", "a1b", "<\\1\\2>"), "<a1><b>");
  EXPECT_EQ(replaced("a", "a", "\\g<0>\\g<0>\\044$x$"), "aa$$x$");
  EXPECT_EQ(replaced("(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)(l)", "abcdefghijkl", "\\12\\1"), "la");
  EXPECT_EQ(replaced("(a)", "a", "\\\\1"), "\\1");
  EXPECT_EQ(replaced("(?P<n>a)", "a", "\\g<n>$0"), "a$0");
  // a bad template is refused even where nothing matches
  for (const char* bad : {"\\2", "x\\9y", "\\q", "\\"})
    for (const char* text : {"a", "b"}) EXPECT_THROW(replaced("(a)", text, bad), Error) << bad;
}

// A hostile file has such names: the expression still works on the rest, and the bytes stay what
// they are.
TEST(Regex, NamesThatAreNotUtf8KeepTheirBytes) {
  EXPECT_EQ(replaced("a",
                     "\xff"
                     "a\xc3"
                     "a",
                     "b"),
            "\xff"
            "b\xc3"
            "b");
  EXPECT_EQ(replaced("^.", "a\xff", "x"), "x\xff");
  EXPECT_EQ(replaced("\xc3\xa9", "\xc3\xa9\xa9\xc3", "e"), "e\xa9\xc3");
  const std::string kept = replaced("x*",
                                    "\xff\xfe"
                                    "a",
                                    "-");
  EXPECT_THAT(kept, HasSubstr("\xff\xfe"));
  EXPECT_THAT(kept, ::testing::EndsWith("a-"));
}

TEST(Regex, ReplacingInLongTextsIsBounded) {
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(replaced("a", text, "bb").size(), 2 * text.size());
  const auto hostile = try_call([&] { return replaced("(a+)+(?<!a)", text, "x"); });
  ASSERT_FALSE(hostile.ok());
  EXPECT_THAT(hostile.error().message(), HasSubstr("limit"));
  EXPECT_LT(hostile.error().message().size(), 1000U);
}

}  // namespace
}  // namespace cairn
