// proto_text_test.cc -- which texts are protocol buffers, and where the others break.
#include <cairn/orbax/read/proto_text.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::orbax {
namespace {

std::string fault_of(std::string_view text) {
  const auto fault = find_proto_text_fault(text);
  return fault ? std::to_string(fault->offset) + ": " + fault->message : "";
}

TEST(ProtoText, TakesTheWholeGrammar) {
  for (const char* text : {
           "",
           " # only a comment",
           "fields { key: \"a\" value { number_value: 1 } }",
           "a: 1, b: 2; c: -0x1F d: 017 e: .5 f: 1.f g: -inf h: nan i: TRUE 12: 3",
           R"(s: 'a' "b\n\x4\101\u00e9\U0001F600\q" t: "\\")",
           "list: [] list: [1, 'a', X] list: [{ a: 1 }, < >]",
           "[a.b.c] { x: 1 } [type.googleapis.com/a.b] < > [my%20host/a.b] { }",
       })
    EXPECT_EQ(fault_of(text), "") << text;
}

TEST(ProtoText, NamesThePlaceOfAFault) {
  EXPECT_EQ(fault_of("a: \"lay"), "3: the string has no closing quote");
  EXPECT_EQ(fault_of("a: \"x\ny\""), "3: the string has no closing quote");
  EXPECT_EQ(fault_of(std::string_view("a: \"\xff\"", 6)), "4: is not UTF-8");
  EXPECT_EQ(fault_of("a: \"b\\x\""), "5: the string has an invalid escape sequence");
  EXPECT_EQ(fault_of("a { b: 1"), "8: expected '}', found the end of the text");
  EXPECT_EQ(fault_of("a { b: 1 >"), "9: expected '}', found '>'");
  EXPECT_EQ(fault_of("a: 1 }"), "5: expected the name of a field, found '}'");
  EXPECT_EQ(fault_of("a 1"), "2: expected ':' or '{', found '1'");
  EXPECT_EQ(fault_of("a: 1x"), "3: expected a value, found '1x'");
  EXPECT_EQ(fault_of("a: [1 2]"), "6: expected ',' or ']', found '2'");
  EXPECT_EQ(fault_of("a: [1,"), "6: expected a value, found the end of the text");
  EXPECT_EQ(fault_of("[] { }"), "1: expected the name of a type, found ']'");
  EXPECT_EQ(fault_of("[a 'b'] { }"), "3: expected ']', found ''b''");
}

TEST(ProtoText, TakesTextsOfAnyDepth) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "a{";
  EXPECT_EQ(fault_of(text), "200000: expected '}', found the end of the text");
  EXPECT_EQ(fault_of(text + std::string(100'000, '}')), "");
}

}  // namespace
}  // namespace cairn::orbax
