// pickle_test.cc -- each opcode of a pickle, and pickles that are damaged or hostile.
#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/tools/inspect/pickle_json.h>
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/matchers.h"

namespace cairn::pickle {
namespace {

using namespace std::string_literals;
using cairn::testing::FailsWith;

Pickle parse(std::string_view text, const PickleLimits& limits = {}) {
  const ByteView bytes = as_bytes(text);
  return parse_pickle(Bytes(bytes.begin(), bytes.end()), limits);
}

// The value of a pickle as compact JSON.
std::string value_of(std::string_view text) {
  return to_text(*pickle_json(parse(text)).find("value"));
}

TEST(Pickle, ReadsEachOpcode) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      // scalars
      {"N.", "null"},
      {"\x88.", "true"},
      {"\x89.", "false"},
      {"I00\n.", "false"},
      {"I01\n.", "true"},
      {"I-12\n.", "-12"},
      {"L123456789012345678901234567890L\n.", "123456789012345678901234567890"},
      {"L5\n.", "5"},
      {"F-2.5\n.", "-2.5"},
      {"J\xff\xff\xff\xff.", "-1"},
      {"K\xff.", "255"},
      {"M\x00\x01."s, "256"},
      {"\x8a\x00."s, "0"},
      {"\x8a\x01\xff.", "-1"},
      {"\x8a\x02\xff\x00."s, "255"},
      {"\x8b\x02\x00\x00\x00\x00\x80."s, "-32768"},
      {"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s,
       R"({"$long":9,"hex":"000000000000000001"})"},
      {"G\x3f\xf8\x00\x00\x00\x00\x00\x00."s, "1.5"},
      // texts and bytes
      {"X\x02\x00\x00\x00\xc3\xa4."s, "\"\xc3\xa4\""},
      {"\x8c\x01x.", R"("x")"},
      {"\x8d\x01\x00\x00\x00\x00\x00\x00\x00y."s, R"("y")"},
      {"Va\\u00e4\\U0001f600\xe4\n.", "\"a\xc3\xa4\xf0\x9f\x98\x80\xc3\xa4\""},
      {R"(S'a\'\x41\101\n\q')"
       "\n.",
       R"("a'AA\n\\q")"},
      {"T\x02\x00\x00\x00zz."s, R"("zz")"},
      {"U\x01z.", R"("z")"},
      {"B\x01\x00\x00\x00\xff."s, R"({"$bytes":1,"hex":"ff"})"},
      {"C\x02\x01\x02.", R"({"$bytes":2,"hex":"0102"})"},
      {"\x8e\x01\x00\x00\x00\x00\x00\x00\x00\x07."s, R"({"$bytes":1,"hex":"07"})"},
      {"\x96\x01\x00\x00\x00\x00\x00\x00\x00\x07."s, R"({"$bytearray":1,"hex":"07"})"},
      // collections
      {").", R"({"$tuple":[]})"},
      {"K\x01\x85.", R"({"$tuple":[1]})"},
      {"K\x01K\x02\x86.", R"({"$tuple":[1,2]})"},
      {"K\x01K\x02K\x03\x87.", R"({"$tuple":[1,2,3]})"},
      {"(K\x01K\x02t.", R"({"$tuple":[1,2]})"},
      {"(t.", R"({"$tuple":[]})"},
      {"].", "[]"},
      {"]K\x01"
       "a(K\x02K\x03"
       "e.",
       "[1,2,3]"},
      {"(K\x01K\x02l.", "[1,2]"},
      {"}.", "{}"},
      {"}\x8c\x01"
       "aK\x01s(\x8c\x01"
       "bK\x02u.",
       R"({"a":1,"b":2})"},
      {"(\x8c\x01"
       "aK\x01"
       "d.",
       R"({"a":1})"},
      {"}K\x01K\x02s.", R"({"$dict":[[1,2]]})"},
      {"}\x8c\x01"
       "aK\x01s\x8c\x01"
       "aK\x02s.",
       R"({"$dict":[["a",1],["a",2]]})"},
      {"}\x8c\x02$xK\x01s.", R"({"$dict":[["$x",1]]})"},
      {"\x8f(K\x01\x90.", R"({"$set":[1]})"},
      {"(K\x01\x91.", R"({"$frozenset":[1]})"},
      // the stack and the memo
      {"K\x01K\x02"
       "0.",
       "1"},
      {"K\x01(0.", "1"},
      {"K\x01(K\x02K\x03"
       "1.",
       "1"},
      {"K\x01"
       "2\x86.",
       R"({"$tuple":[1,1]})"},
      {"K\x05q\x00"
       "0h\x00."s,
       "5"},
      {"K\x05p7\n0g7\n.", "5"},
      {"K\x05r\xff\xff\xff\xff"
       "0j\xff\xff\xff\xff."s,
       "5"},
      {"K\x05\x94K\x06\x94"
       "00h\x01."s,
       "6"},
      {"K\x05q\x01"
       "0K\x06q\x00"
       "0K\x07\x94"
       "0h\x01."s,
       "5"},
      {"K\x05q\x01"
       "0K\x06q\x00"
       "0K\x07q\x01"
       "0h\x01."s,
       "7"},
      // globals, calls and objects: data
      {"cos\nsystem\n.", R"({"$global":"os.system"})"},
      {"\x8c\x02os\x8c\x06system\x93.", R"({"$global":"os.system"})"},
      {"cos\nsystem\n\x8c\x02ls\x85R.", R"({"$call":"os.system","args":["ls"]})"},
      {"cm\nC\n)\x81.", R"({"$new":"m.C","args":[]})"},
      {"cm\nC\n)}\x8c\x01kK\x01s\x92.", R"({"$new":"m.C","args":[],"kwargs":{"k":1}})"},
      {"(K\x01im\nC\n.", R"({"$new":"m.C","args":[1]})"},
      {"(cm\nC\nK\x01o.", R"({"$new":"m.C","args":[1]})"},
      {"cm\nC\n)\x81}\x8c\x01xK\x01sb.", R"({"$new":"m.C","args":[],"state":{"x":1}})"},
      {"cm\nC\n)\x81K\x01"
       "bK\x02"
       "b.",
       R"({"$new":"m.C","args":[],"states":[1,2]})"},
      {"cm\nC\n)RK\x01"
       "a(K\x02"
       "e.",
       R"({"$call":"m.C","args":[],"items":[1,2]})"},
      {"cm\nC\n)R(K\x01\x90.", R"({"$call":"m.C","args":[],"items":[1]})"},
      {"cm\nC\n)R\x8c\x01"
       "aK\x01s.",
       R"({"$call":"m.C","args":[],"entries":{"a":1}})"},
      {"K\x01K\x02R.", R"({"$call":1,"args":2})"},
      {"\x82\x05.", R"({"$extension":5})"},
      {"\x83\x05\x01.", R"({"$extension":261})"},
      {"\x84\x05\x00\x00\x00."s, R"({"$extension":5})"},
      {"Pid\n.", R"({"$persistent":"id"})"},
      {"K\x01Q.", R"({"$persistent":1})"},
      {"\x97\x97\x86.", R"({"$tuple":[{"$buffer":0},{"$buffer":1}]})"},
      {"\x97\x98.", R"({"$buffer":0})"},
      // protocol and frames
      {"\x80\x05\x95\x02\x00\x00\x00\x00\x00\x00\x00N."s, "null"},
      {"N.rest", "null"},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(value_of(text), expected) << text;
}

TEST(Pickle, PrintsSharedValuesOnceAndEndsAtCycles) {
  EXPECT_EQ(value_of("]q\x00h\x00"
                     "a."s),
            R"({"$id":4,"$value":[{"$ref":4}]})");
  EXPECT_EQ(value_of("]q\x00K\x01"
                     "ah\x00\x86."s),
            R"({"$tuple":[{"$id":4,"$value":[1]},{"$ref":4}]})");
  // Ten lists, each with ten times the one before: 10^10 values if they were written out.
  std::string laughs =
      "]K\x01"
      "aq\x00"s;
  for (int i = 1; i <= 10; ++i) {
    laughs += "0](";
    for (int k = 0; k < 10; ++k) laughs += "h"s + static_cast<char>(i - 1);
    laughs += "eq"s + static_cast<char>(i);
  }
  EXPECT_LT(value_of(laughs + ".").size(), 5000U);
  const std::string text = "X\xe8\x03\x00\x00"s + std::string(1000, 'x') + "q\x00"s;
  std::string repeated = "(" + text;
  for (int i = 0; i < 1000; ++i) repeated += "h\x00"s;
  EXPECT_LT(value_of(repeated + "t.").size(), 20'000U);
}

TEST(Pickle, PrintsDeepValuesBesideTheRest) {
  const Json json = pickle_json(parse(")" + std::string(20'000, '\x85') + "."));
  ASSERT_NE(json.find("deeper"), nullptr);
  EXPECT_EQ(json.find("deeper")->as_array()->size(), 202U);  // about 100 levels each
}

TEST(Pickle, RefusesDamage) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "byte 0 of the pickle: unexpected end of data"},
      {"N", "byte 1 of the pickle: unexpected end of data"},
      {".", "the stack has too few values"},
      {"\xff.", "opcode 255 is unknown"},
      {"\x80\x06N.", "protocol 6 is unknown"},
      {"\x95\x03\x00\x00\x00\x00\x00\x00\x00N."s, "a frame is longer than the rest"},
      {"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", "a frame is longer than the rest"},
      {"X\xff\xff\xff\xff"
       "a.",
       "unexpected end of data"},
      {"\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
       "a.",
       "unexpected end of data"},
      {"\x96\xff\xff\xff\xff\xff\xff\xff\x7f"
       "a.",
       "unexpected end of data"},
      {"T\xff\xff\xff\xff"
       "a.",
       "a length is negative"},
      {"\x8b\xff\xff\xff\xff"
       "a.",
       "a length is negative"},
      {"X\x01\x00\x00\x00\xff."s, "a text is not UTF-8"},
      {"c\xff\nx\n.", "a text is not UTF-8"},
      {"cos\nsystem", "a line has no end"},
      {"I1x\n.", "an integer has other characters than digits"},
      {"I-\n.", "an integer has other characters than digits"},
      {"F1,5\n.", "a number is none"},
      {"Sabc\n.", "a string is not quoted"},
      {"S'a\n.", "a string is not quoted"},
      {"S'a\\'\n.", "a string ends with a backslash"},
      {"Va\\u12\n.", "an escape in a text is damaged"},
      {"Va\\U00110000\n.", "an escape in a text is damaged"},
      {"K\x01(.", "the stack has too few values"},
      {"K\x01(\x85.", "the stack has too few values"},
      {"t.", "there is no mark"},
      {"K\x01(K\x02s.", "the stack has too few values"},
      {"h\x05.", "memo 5 is not set"},
      {"g9x\n.", "the number of a memo is damaged"},
      {"q\x05.", "the stack has too few values"},
      {"(q\x05.", "the stack has too few values"},
      {")K\x01"
       "a.",
       "items are added to a value that cannot hold them"},
      {"](K\x01K\x02u.", "items are added to a value that cannot hold them"},
      {"}(K\x01"
       "e.",
       "items are added to a value that cannot hold them"},
      {"](K\x01\x90.", "items are added to a value that cannot hold them"},
      {"cos\nx\nK\x01K\x02s.", "items are added to a value that cannot hold them"},
      {"}(K\x01u.", "a key has no value"},
      {"(K\x01"
       "d.",
       "a key has no value"},
      {"]K\x01"
       "b.",
       "a state is given to a value that is no object"},
      {"K\x01K\x02\x93.", "the name of a global is no text"},
      {"(o.", "an object has no class"},
      {"\x82\x00."s, "the code of an extension is not positive"},
      {"\x84\xff\xff\xff\xff.", "the code of an extension is not positive"},
      {"\x98.", "the stack has too few values"},
      {"c" + std::string(5000, 'm') + "\nx\n.", "the name of a global has 5000 bytes"},
  };
  for (const auto& [text, expected] : rows)
    EXPECT_THAT(([&, &text = text] { parse(text); }), FailsWith(Code::kDataLoss, expected)) << text;
}

// Each beginning of a pickle with all kinds of opcodes is refused: none ends early.
TEST(Pickle, RefusesEachTruncation) {
  const std::string whole =
      "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}(\x8c\x01"
      "a\x94X\x01\x00\x00\x00"
      "b\x8c\x01"
      "ocm\nC\n)R}\x8c\x01"
      "cG\x3f\xf8\x00\x00\x00\x00\x00\x00sb\x8c\x01"
      "d](J\x01\x00\x00\x00\x8a\x02\x01\x02"
      "eu."s;
  ASSERT_NO_THROW(parse(whole));
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THAT([&] { parse(whole.substr(0, n)); }, FailsWith(Code::kDataLoss, "")) << n;
}

TEST(Pickle, BoundsItsMemory) {
  const PickleLimits few{.memory = 1000};
  // One byte for each list: 20 bytes of memory.
  EXPECT_THAT([&] { parse(std::string(100'000, ']') + ".", few); },
              FailsWith(Code::kDataLoss, "more memory than the size of the pickle allows"));
  // A global with a long name is printed wherever it stands.
  const std::string global = "c" + std::string(2000, 'm') + "\nx\nq";
  const auto uses = [&](int n) {
    std::string text = "(" + global + "\0"s;
    for (int i = 0; i < n; ++i) text += "h\0"s;
    return text + "l.";
  };
  EXPECT_NO_THROW(parse(uses(1000)));
  EXPECT_THAT([&] { parse(uses(10'000)); },
              FailsWith(Code::kDataLoss, "more memory than the size of the pickle allows"));
  // A list that grows by one item at a time keeps within the bound.
  std::string growing = "]";
  for (int i = 0; i < 20'000; ++i)
    growing +=
        "K\x01"
        "a";
  EXPECT_EQ(parse(growing + ".", {.memory = 1 << 20}).items(4).size(), 20'000U);
}

TEST(Pickle, NamesEachGlobalOnce) {
  const Pickle pickle =
      parse("(cos\nsystem\ncos\nsystem\nctorch\nSize\ncollections\nOrderedDict\nt.");
  ASSERT_EQ(pickle.globals().size(), 3U);
  EXPECT_TRUE(pickle.is_global(pickle.globals()[0], "os.system"));
  EXPECT_FALSE(pickle.is_global(pickle.globals()[0], "os.syste"));
}

}  // namespace
}  // namespace cairn::pickle
