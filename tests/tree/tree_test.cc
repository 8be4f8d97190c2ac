// tree_test.cc -- taking trees apart and putting them together.
#include <cairn/tree.h>
#include <gmock/gmock.h>

namespace cairn {
namespace {

using ::testing::HasSubstr;

Key d(std::string text) { return {std::move(text), KeyType::kDict}; }
Key s(std::string text) { return {std::move(text), KeyType::kSequence}; }
Tree i(std::int64_t v) { return Tree(v); }

// A tree as text: {a:[1,2],b:None}.
std::string text(const Tree& tree) {
  std::string out;
  if (const auto* dict = tree.dict()) {
    for (const auto& [key, child] : *dict) out += (out.empty() ? "" : ",") + key + ":" + text(child);
    return "{" + out + "}";
  }
  if (const auto* list = tree.list()) {
    for (const auto& child : *list) out += (out.empty() ? "" : ",") + text(child);
    return "[" + out + "]";
  }
  if (const auto* number = std::get_if<std::int64_t>(&tree.value())) return std::to_string(*number);
  if (const auto* empty = std::get_if<EmptyNode>(&tree.value())) return std::string(empty_node_name(*empty));
  return "?";
}

TEST(Tree, UnflattenSortsSequencesAsNumbersAndDictsAsText) {
  std::vector<TreeEntry> entries;
  for (int n = 11; n >= 0; --n) entries.push_back({{d("l"), s(std::to_string(n))}, i(n)});
  entries.push_back({{d("d"), d("9")}, i(9)});
  entries.push_back({{d("d"), d("10")}, i(10)});
  entries.push_back({{d("a")}, Tree(EmptyNode::kTuple)});
  EXPECT_EQ(text(unflatten(std::move(entries))), "{a:Tuple,d:{10:10,9:9},l:[0,1,2,3,4,5,6,7,8,9,10,11]}");
}

TEST(Tree, ABareLeafIsATree) { EXPECT_EQ(text(unflatten({{{}, i(5)}})), "5"); }

TEST(Tree, GapsInListsClose) { EXPECT_EQ(text(unflatten({{{s("7")}, i(7)}, {{s("3")}, i(3)}})), "[3,7]"); }

TEST(Tree, EntriesThatOthersExtendAreDropped) {
  EXPECT_EQ(text(unflatten({{{d("a")}, Tree(EmptyNode::kDict)}, {{d("a"), d("b")}, i(1)}, {{}, i(0)}, {{d("a"), d("b"), d("c")}, i(2)}})),
            "{a:{b:{c:2}}}");
}

TEST(Tree, FlattenIsTheReverse) {
  const Tree tree(
      Tree::Dict{{"z", Tree(Tree::List{i(1), Tree(Tree::Dict{{"k", Tree(EmptyNode::kNone)}})})}, {"a", i(2)}, {"e", Tree(Tree::Dict{})}});
  const auto entries = flatten(tree);
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(path_text(entries[0].path), "['z'][0]");
  EXPECT_EQ(path_text(entries[1].path), "['z'][1]['k']");
  EXPECT_EQ(path_text(entries[2].path), "['a']");
  EXPECT_EQ(text(entries[3].value), "Dict");
  EXPECT_EQ(text(unflatten(entries)), "{a:2,e:Dict,z:[1,{k:None}]}");
}

TEST(Tree, FindLooksIntoDictsAndLists) {
  const Tree tree(Tree::Dict{{"l", Tree(Tree::List{i(1), i(2)})}});
  ASSERT_NE(tree.find("l"), nullptr);
  ASSERT_NE(tree.find("l")->find("1"), nullptr);
  EXPECT_EQ(text(*tree.find("l")->find("1")), "2");
  for (const char* missing : {"2", "-1", "", "x", "1x", "99999999999999999999"})
    EXPECT_EQ(tree.find("l")->find(missing), nullptr) << missing;
  EXPECT_EQ(tree.find("m"), nullptr);
  EXPECT_EQ(i(1).find("0"), nullptr);
}

TEST(Tree, AThousandLevelsAreEnough) {
  const Tree tree = unflatten({{KeyPath(1000, d("x")), i(1)}});
  EXPECT_EQ(flatten(tree).at(0).path.size(), 1000U);
}

void expect_error(std::vector<TreeEntry> entries, Code code, const char* message) {
  try {
    unflatten(std::move(entries));
    FAIL() << message;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    EXPECT_THAT(e.message(), HasSubstr(message));
  }
}

TEST(Tree, UnflattenRefuses) {
  expect_error({}, Code::kInvalidArgument, "no entries");
  expect_error({{{d("a"), s("0")}, i(1)}, {{d("a"), d("b")}, i(2)}}, Code::kDataLoss, "the node at '['a']' has both");
  expect_error({{{d("a")}, i(1)}, {{d("a")}, i(2)}}, Code::kInvalidArgument, "two leaves have the path ['a']");
  expect_error({{{}, i(1)}, {{}, i(2)}}, Code::kInvalidArgument, "two leaves");
  expect_error({{KeyPath(1000000, d("x")), i(1)}}, Code::kDataLoss, "1000000 levels");
}

}  // namespace
}  // namespace cairn
