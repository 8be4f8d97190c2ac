// python_tuple_test.cc -- the names of leaves: tuples of strings, as Python's repr formats them.
#include <cairn/tree/metadata/python_tuple.h>
#include <cairn/tree/metadata/tree_metadata.h>
#include <gmock/gmock.h>

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(PythonTuple, ReadsWhatPythonWrites) {
  EXPECT_THAT(parse_python_tuple("()"), Optional(IsEmpty()));
  EXPECT_THAT(parse_python_tuple("('a',)"), Optional(ElementsAre("a")));
  EXPECT_THAT(parse_python_tuple("('a', '')"), Optional(ElementsAre("a", "")));
  EXPECT_THAT(parse_python_tuple("('l', '1', '0')"), Optional(ElementsAre("l", "1", "0")));
  EXPECT_THAT(parse_python_tuple(R"x(("it's", 'b"c'))x"), Optional(ElementsAre("it's", "b\"c")));
  EXPECT_THAT(parse_python_tuple(R"x(('both \' and "',))x"),
              Optional(ElementsAre("both ' and \"")));
  EXPECT_THAT(parse_python_tuple(R"x(('\\', '\n\r\t\x7f'))x"),
              Optional(ElementsAre("\\", "\n\r\t\x7f")));
  EXPECT_THAT(parse_python_tuple("('(', ', ', ',)')"), Optional(ElementsAre("(", ", ", ",)")));
  // Each version of Python escapes the characters that its version of Unicode does not have.
  EXPECT_THAT(parse_python_tuple("('\u00e9\U0001fae8', '\\xe9\\u6f22\\U0001fae8')"),
              Optional(ElementsAre("\u00e9\U0001fae8", "\u00e9\u6f22\U0001fae8")));
}

TEST(PythonTuple, RefusesAllElse) {
  for (const char* text : {"",
                           "(",
                           ")",
                           "x",
                           "a",
                           "'a'",
                           "('a')",
                           "('a'",
                           "('a',",
                           "('a', )",
                           "('a','b')",
                           "('a', 'b',)",
                           "('a',) ",
                           " ('a',)",
                           "(,)",
                           "(a,)",
                           "(1,)",
                           "('a',)('b',)",
                           "('a\",)",
                           "(b'a',)",
                           "['a']",
                           R"(('\a',))",
                           R"(('\x7',))",
                           R"(('\xg0',))",
                           R"(('\x-1',))",
                           R"(('\ud800',))",
                           R"(('\U00110000',))",
                           R"(('\)",
                           R"(('\u12)"})
    EXPECT_EQ(parse_python_tuple(text), std::nullopt) << text;
}

// Keys of one to three characters, with everything that repr treats in its own way.
TEST(PythonTuple, EveryNameThatCairnWritesIsTheTupleOfItsKeys) {
  const std::vector<std::string> characters = {
      "a",          "'",      "\"",     "\\", "\n",     "\r",     "\t",     "\x01",
      "\x7f",       "(",      ",",      " ",  "\u00a0", "\u00e9", "\u0600", "\u2028",
      "\U0001fae8", "\ufeff", "\ue000", "7",  "\u00ad", "\u0378", "/",      "\U000e0001"};
  TreeMetadata metadata;
  const auto add = [&](KeyPath path) {
    metadata.leaves.push_back({.path = std::move(path),
                               .value_type = "np.ndarray",
                               .skip_deserialize = false,
                               .write_shape = std::nullopt});
  };
  for (const std::string& a : characters)
    for (const std::string& b : characters) {
      add({{"one", KeyType::kDict}, {a + b, KeyType::kDict}});
      add({{"two", KeyType::kDict}, {b + "x" + a, KeyType::kDict}, {"10", KeyType::kSequence}});
      add({{a + "y" + b, KeyType::kDict}});
    }
  EXPECT_THAT(find_misnamed_leaves(tree_metadata_text(metadata)), IsEmpty());
  metadata.leaves.clear();
  add({});
  EXPECT_THAT(find_misnamed_leaves(tree_metadata_text(metadata)), IsEmpty());
}

}  // namespace
}  // namespace cairn
