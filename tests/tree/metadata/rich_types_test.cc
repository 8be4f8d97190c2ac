// rich_types_test.cc -- the record of tuples and named tuples, as text and back.
#include <cairn/base/json/json.h>
#include <cairn/base/json/scan.h>
#include <cairn/tree/metadata/rich_types.h>
#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "tests/support/matchers.h"
#include "tests/tree/short_names.h"

namespace cairn {
namespace {

using testing::FailsWith;

LeafMetadata array_leaf(const KeyPath& path) {
  LeafMetadata leaf;
  leaf.path = path;
  leaf.value_type = "np.ndarray";
  leaf.write_shape = Shape{2, 3};
  return leaf;
}

// The text of a tree whose leaves are all alike.
std::string text_of(const Tree& tree) {
  LeafMetadata last;
  return rich_types_text(tree, [&](const KeyPath& path, const Tree& node) -> const LeafMetadata& {
    last = array_leaf(path);
    if (const auto* empty = std::get_if<EmptyNode>(&node.value()))
      last = {.path = path,
              .value_type = std::string(empty_node_name(*empty)),
              .skip_deserialize = true,
              .write_shape = {}};
    return last;
  });
}

const Tree kLeaf(EmptyNode::kNone);

TEST(RichTypes, TheTextIsAStringThatHoldsJson) {
  const std::string text = text_of(Tree{{"b", Tree(Tree::Tuple{{kLeaf}})}});
  EXPECT_EQ(
      text,
      R"("{\"b\": {\"category\": \"custom\", \"clazz\": \"tuple\", \"entries\": [{\"category\": )"
      R"(\"custom\", \"clazz\": \"ValueMetadataEntry\", \"data\": {\"value_type\": \"None\", )"
      R"(\"skip_deserialize\": true}}]}}")");
  // The inner text is written as the library writes other JSON: with the same spaces and escapes.
  const std::string inner = JsonScanner(text).string();
  EXPECT_EQ(to_text(parse_json(inner), JsonStyle::kPython), inner);
  EXPECT_EQ(python_quoted(inner), text);
}

TEST(RichTypes, ContainersAndNamesComeBack) {
  const Tree numbers(Tree::List{Tree(Tree::Tuple{{kLeaf, Tree(EmptyNode::kTuple)}}), kLeaf});
  for (const std::string key : {"plain", "", "a\"b", "back\\slash", "it's", "line\nbreak", "\x7f",
                                "\xc3\xa9t\xc3\xa9", "\xf0\x9f\x98\x80", "tuple", "category"}) {
    const Tree tree{{key, numbers}, {"named", Tree(Tree::NamedTuple{key, key, {{key, kLeaf}}})}};
    const std::string text = text_of(tree);
    EXPECT_EQ(parse_rich_types(text), tree) << text;
    const std::string inner = JsonScanner(text).string();
    EXPECT_EQ(to_text(parse_json(inner), JsonStyle::kPython), inner);
    EXPECT_EQ(python_quoted(inner), text);
  }
}

TEST(RichTypes, LeavesKeepTheirMetadata) {
  const Tree parsed = parse_rich_types(text_of(Tree{{"w", Tree(7)}}));
  const auto* leaf = parsed.at("w").custom<LeafMetadata>();
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(*leaf, array_leaf({testing::d("w")}));
}

TEST(RichTypes, DictsAreSorted) {
  EXPECT_EQ(text_of(Tree{{"b", kLeaf}, {"a", kLeaf}}), text_of(Tree{{"a", kLeaf}, {"b", kLeaf}}));
}

TEST(RichTypes, ARecordOfPlainContainersSaysNoMore) {
  const Tree plain{{"a", Tree(Tree::List{kLeaf, kLeaf})}, {"b", kLeaf}};
  EXPECT_FALSE(may_say_more(text_of(plain), 3));
  EXPECT_TRUE(may_say_more(text_of(plain), 2));  // an empty node that the plain tree lacks
  const Tree tuple{{"a", Tree(Tree::Tuple{{kLeaf, kLeaf}})}, {"b", kLeaf}};
  EXPECT_TRUE(may_say_more(text_of(tuple), 3));
  EXPECT_TRUE(may_say_more(text_of(Tree(Tree::NamedTuple{"m", "N", {{"x", kLeaf}}})), 1));
  // A writer may escape any letter.
  std::string hidden = text_of(tuple);
  hidden.replace(hidden.find("tuple"), 1, R"(\\u0074)");
  EXPECT_EQ(parse_rich_types(hidden), tuple);
  EXPECT_TRUE(may_say_more(hidden, 3));
}

using Above = Tree (*)(Tree);

// A tree of so many levels: `above` returns a container with one child.
Tree deep_tree(std::size_t levels, Above above) {
  Tree tree = kLeaf;
  for (std::size_t level = 0; level < levels; ++level) tree = above(std::move(tree));
  return tree;
}

const Above kContainers[] = {[](Tree child) {
                               Tree::Dict dict;
                               dict.emplace_back("a", std::move(child));
                               return Tree(std::move(dict));
                             },
                             [](Tree child) {
                               Tree::List list;
                               list.push_back(std::move(child));
                               return Tree(std::move(list));
                             },
                             [](Tree child) {
                               Tree::List list;
                               list.push_back(std::move(child));
                               return Tree(Tree::Tuple{std::move(list)});
                             },
                             [](Tree child) {
                               Tree::NamedTuple named{"module", "Name", {}};
                               named.fields.emplace_back("a", std::move(child));
                               return Tree(std::move(named));
                             }};

TEST(RichTypes, DeepTreesComeBack) {
  for (const Above above : kContainers) {
    const Tree tree = deep_tree(1000, above);
    EXPECT_TRUE(parse_rich_types(text_of(tree)) == tree);
  }
}

// The text of a tree of so many levels, whatever the limit is.
std::string deep_text(std::size_t levels, const std::string& before, const std::string& after) {
  std::string text;
  for (std::size_t level = 0; level < levels; ++level) text += before;
  text +=
      R"({"category": "custom", "clazz": "ValueMetadataEntry", "data": {"value_type": "None"}})";
  for (std::size_t level = 0; level < levels; ++level) text += after;
  return python_quoted(text);
}

TEST(RichTypes, TreesThatAreTooDeepAreRefused) {
  for (const Above above : kContainers)
    EXPECT_THAT(
        [&] { text_of(deep_tree(1001, above)); },
        FailsWith(Code::kInvalidArgument, "the tree is more than 1000 levels deep, below '"));
  const std::pair<std::string, std::string> kParts[] = {
      {R"({"a": )", "}"},
      {"[", "]"},
      {R"({"category": "custom", "clazz": "tuple", "entries": [)", "]}"},
      {R"({"category": "namedtuple", "module": "m", "clazz": "n", "entries": [{"key": "a", "value": )",
       "}]}"}};
  for (const auto& parts : kParts) {
    const auto parse = [&](std::size_t levels) {
      parse_rich_types(deep_text(levels, parts.first, parts.second));
    };
    EXPECT_NO_THROW(parse(1000));
    EXPECT_THAT([&] { parse(1001); },
                FailsWith(Code::kDataLoss, "the tree is more than 1000 levels deep, below '"));
    EXPECT_THAT([&] { parse(100000); }, FailsWith(Code::kDataLoss));
  }
}

TEST(RichTypes, DamagedTextIsRefused) {
  EXPECT_THAT([] { parse_rich_types(""); }, FailsWith(Code::kDataLoss, "end of JSON"));
  EXPECT_THAT([] { parse_rich_types("{}"); }, FailsWith(Code::kDataLoss, "a string"));
  EXPECT_THAT([] { parse_rich_types(R"("{")"); }, FailsWith(Code::kDataLoss));
  EXPECT_THAT([] { parse_rich_types(R"("7")"); }, FailsWith(Code::kDataLoss, "expected an object"));
  EXPECT_THAT([] { parse_rich_types(R"("{\"category\": \"custom\", \"clazz\": \"x\"}")"); },
              FailsWith(Code::kDataLoss, "unknown node"));
}

}  // namespace
}  // namespace cairn
