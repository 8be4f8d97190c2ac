// tree_test.cc -- taking trees apart and putting them together.
#include <cairn/tree.h>
#include <cairn/tree/build_tree.h>
#include <gmock/gmock.h>

#include <complex>
#include <cstdint>
#include <limits>

#include "tests/support/matchers.h"
#include "tests/tree/short_names.h"

namespace cairn {
namespace {

using testing::d;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::i;
using testing::s;

// A tree as text: {a:[1,2],b:None}.
std::string spelled(const Tree& tree) {
  std::string out;
  if (const auto* dict = tree.dict()) {
    for (const auto& [key, child] : *dict)
      out += (out.empty() ? "" : ",") + key + ":" + spelled(child);
    return "{" + out + "}";
  }
  if (const auto* list = tree.list()) {
    for (const auto& child : *list) out += (out.empty() ? "" : ",") + spelled(child);
    return "[" + out + "]";
  }
  if (const auto* number = std::get_if<std::int64_t>(&tree.value())) return std::to_string(*number);
  if (const auto* empty = std::get_if<EmptyNode>(&tree.value()))
    return std::string(empty_node_name(*empty));
  return "?";
}

TEST(Tree, BuildTreeAsksForEachLeafOnceInOrder) {
  const std::vector<KeyPath> paths = {
      {d("b"), s("1")}, {d("a")}, {d("b")}, {d("b"), s("0")}, {d("c"), d("x")}};
  std::vector<const KeyPath*> borrowed;
  for (const KeyPath& path : paths) borrowed.push_back(&path);
  std::vector<std::size_t> asked;
  const Tree tree = build_tree(borrowed, [&](std::size_t leaf) {
    asked.push_back(leaf);
    return i(static_cast<std::int64_t>(leaf));
  });
  EXPECT_EQ(spelled(tree), "{a:1,b:[3,0],c:{x:4}}");
  EXPECT_THAT(asked, ::testing::ElementsAre(1, 3, 0, 4));  // 2 is a prefix of others
}

TEST(Tree, UnflattenSortsSequencesAsNumbersAndDictsAsText) {
  std::vector<TreeEntry> entries;
  for (int n = 11; n >= 0; --n) entries.push_back({{d("l"), s(std::to_string(n))}, i(n)});
  entries.push_back({{d("d"), d("9")}, i(9)});
  entries.push_back({{d("d"), d("10")}, i(10)});
  entries.push_back({{d("a")}, Tree(EmptyNode::kTuple)});
  EXPECT_EQ(spelled(unflatten(std::move(entries))),
            "{a:Tuple,d:{10:10,9:9},l:[0,1,2,3,4,5,6,7,8,9,10,11]}");
}

TEST(Tree, ABareLeafIsATree) { EXPECT_EQ(spelled(unflatten({{{}, i(5)}})), "5"); }

TEST(Tree, GapsInListsClose) {
  EXPECT_EQ(spelled(unflatten({{{s("7")}, i(7)}, {{s("3")}, i(3)}})), "[3,7]");
}

TEST(Tree, EntriesThatOthersExtendAreDropped) {
  EXPECT_EQ(spelled(unflatten({{{d("a")}, Tree(EmptyNode::kDict)},
                               {{d("a"), d("b")}, i(1)},
                               {{}, i(0)},
                               {{d("a"), d("b"), d("c")}, i(2)}})),
            "{a:{b:{c:2}}}");
}

TEST(Tree, FlattenIsTheReverse) {
  const Tree tree(
      Tree::Dict{{"z", Tree(Tree::List{i(1), Tree(Tree::Dict{{"k", Tree(EmptyNode::kNone)}})})},
                 {"a", i(2)},
                 {"e", Tree(Tree::Dict{})}});
  const auto entries = flatten(tree);
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(path_text(entries[0].path), "['z'][0]");
  EXPECT_EQ(path_text(entries[1].path), "['z'][1]['k']");
  EXPECT_EQ(path_text(entries[2].path), "['a']");
  EXPECT_EQ(spelled(entries[3].value), "Dict");
  EXPECT_EQ(spelled(unflatten(entries)), "{a:2,e:Dict,z:[1,{k:None}]}");
}

Tree optimizer_state() {
  return Tree(Tree::Dict{
      {"z", i(0)},
      {"opt",
       Tree(Tree::Tuple{{Tree(Tree::NamedTuple{"optax", "State", {{"nu", i(1)}, {"mu", i(2)}}}),
                         Tree(Tree::Tuple{}), Tree(Tree::NamedTuple{"optax", "Empty", {}})}})}});
}

TEST(Tree, TuplesAreSequencesAndFieldsAreMembers) {
  const auto entries = flatten(optimizer_state());
  std::string paths;
  for (const auto& entry : entries)
    paths += path_text(entry.path) + "=" + spelled(entry.value) + " ";
  EXPECT_EQ(
      paths,
      "['z']=0 ['opt'][0]['nu']=1 ['opt'][0]['mu']=2 ['opt'][1]=Tuple ['opt'][2]=NamedTuple ");
  EXPECT_EQ(spelled(*optimizer_state().find("opt")->find("0")->find("mu")), "2");
  EXPECT_EQ(optimizer_state().find("opt")->find("3"), nullptr);
}

TEST(Tree, SortedFlatteningSortsDictsAndNotFields) {
  std::string paths;
  for (const auto& entry : flatten(optimizer_state(), DictOrder::kSorted))
    paths += param_name(entry.path) + " ";
  EXPECT_EQ(paths, "opt.0.nu opt.0.mu opt.1 opt.2 z ");
}

TEST(Tree, MappingKeepsContainersAndReplacesLeaves) {
  const Tree tree = map_leaves(optimizer_state(), [](const KeyPath& path, const Tree& leaf) {
    const auto* number = std::get_if<std::int64_t>(&leaf.value());
    return number != nullptr ? i(*number + 10 * static_cast<std::int64_t>(path.size())) : leaf;
  });
  const Tree* state = tree.find("opt")->find("0");
  ASSERT_NE(state->named_tuple(), nullptr);
  EXPECT_EQ(state->named_tuple()->name, "State");
  EXPECT_EQ(spelled(*state->find("nu")), "31");
  EXPECT_EQ(spelled(*tree.find("z")), "10");
  EXPECT_EQ(spelled(*tree.find("opt")->find("1")), "Tuple");
}

TEST(Tree, CustomLeavesKeepTheirTypeAndShareTheirValue) {
  struct Quantized {
    int scale;
  };
  const Tree leaf(CustomLeaf::of(Quantized{7}));
  const Tree copy =
      leaf;  // NOLINT(performance-unnecessary-copy-initialization): that is what is tested
  ASSERT_NE(copy.custom<Quantized>(), nullptr);
  EXPECT_EQ(copy.custom<Quantized>(), leaf.custom<Quantized>());
  EXPECT_EQ(copy.custom<int>(), nullptr);
  EXPECT_EQ(flatten(leaf).front().value.custom<Quantized>()->scale, 7);
}

template <class T>
bool holds(const Tree& tree, const T& value) {
  const T* held = std::get_if<T>(&tree.value());
  return held != nullptr && *held == value;
}

TEST(Tree, ValuesOfEveryKindAreTrees) {
  struct Quantized {
    int scale;
  };
  const std::string owned = "owned";
  const Array array = Array::allocate(DType::kUint8, {3});
  const Tree tree = Tree::Dict{{"int", 3},
                               {"short", static_cast<short>(-3)},
                               {"unsigned", 3U},
                               {"bool", true},
                               {"float", 1.5F},
                               {"literal", "adam"},
                               {"owned", owned},
                               {"view", std::string_view(owned).substr(2)},
                               {"complex", std::complex<double>(1, 2)},
                               {"array", array},
                               {"own class", Quantized{7}},
                               {"empty", EmptyNode::kTuple},
                               {"list", Tree(Tree::List{1, "two"})},
                               {"dict", Tree::Dict{{"k", 1}, {"l", 2}}}};
  const auto at = [&](const char* key) -> const Tree& { return *tree.find(key); };
  EXPECT_TRUE(holds(at("int"), std::int64_t{3}));
  EXPECT_TRUE(holds(at("short"), std::int64_t{-3}));
  EXPECT_TRUE(holds(at("unsigned"), std::uint64_t{3}));
  EXPECT_TRUE(holds(at("bool"), true));
  EXPECT_TRUE(holds(at("float"), 1.5));
  EXPECT_TRUE(holds(at("literal"), std::string("adam")));
  EXPECT_TRUE(holds(at("owned"), owned));
  EXPECT_TRUE(holds(at("view"), std::string("ned")));
  EXPECT_TRUE(holds(at("complex"), std::complex<double>(1, 2)));
  EXPECT_EQ(at("array").array()->bytes().data(), array.bytes().data());
  EXPECT_EQ(at("own class").custom<Quantized>()->scale, 7);
  EXPECT_TRUE(holds(at("empty"), EmptyNode::kTuple));
  EXPECT_TRUE(holds(*at("list").find("1"), std::string("two")));
  EXPECT_EQ(spelled(at("dict")), "{k:1,l:2}");
}

// They would become custom leaves, which nobody wants.
TEST(Tree, StandardContainersAreNotTrees) {
  static_assert(!std::is_convertible_v<std::optional<Tree>, Tree>);
  static_assert(!std::is_convertible_v<std::variant<int, bool>, Tree>);
  static_assert(!std::is_convertible_v<std::pair<std::string, Tree>, Tree>);
  static_assert(!std::is_convertible_v<std::shared_ptr<Tree>, Tree>);
  static_assert(!std::is_convertible_v<int*, Tree>);
  static_assert(!std::is_convertible_v<DType, Tree>);
}

TEST(Tree, BracesAroundAListCopyIt) {
  const Tree::List list{1, "two"};
  EXPECT_EQ(Tree::List{list}.size(), 2U);
  EXPECT_EQ(Tree(Tree::List{list}).list()->size(), 2U);
}

TEST(Tree, FindLooksIntoDictsAndLists) {
  const Tree tree(Tree::Dict{{"l", Tree(Tree::List{i(1), i(2)})}});
  ASSERT_NE(tree.find("l"), nullptr);
  ASSERT_NE(tree.find("l")->find("1"), nullptr);
  EXPECT_EQ(spelled(*tree.find("l")->find("1")), "2");
  EXPECT_EQ(tree.find("l")->find("01"), nullptr);  // no leaf has this name
  for (const char* missing : {"2", "-1", "", "x", "1x", "99999999999999999999"})
    EXPECT_EQ(tree.find("l")->find(missing), nullptr) << missing;
  EXPECT_EQ(tree.find("m"), nullptr);
  EXPECT_EQ(i(1).find("0"), nullptr);
}

TEST(Tree, AThousandLevelsAreEnough) {
  const Tree tree = unflatten({{KeyPath(1000, d("x")), i(1)}});
  EXPECT_EQ(flatten(tree).at(0).path.size(), 1000U);
}

void expect_refusal(std::vector<TreeEntry> entries, Code code, const char* message) {
  try {
    unflatten(std::move(entries));
    FAIL() << message;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    EXPECT_THAT(e.message(), HasSubstr(message));
  }
}

TEST(Tree, UnflattenRefuses) {
  expect_refusal({}, Code::kInvalidArgument, "no entries");
  expect_refusal({{{d("a"), s("0")}, i(1)}, {{d("a"), d("b")}, i(2)}}, Code::kDataLoss,
                 "the node at 'a' has both");
  expect_refusal({{{d("a")}, i(1)}, {{d("a")}, i(2)}}, Code::kInvalidArgument,
                 "two leaves have the name 'a'");
  expect_refusal({{{}, i(1)}, {{}, i(2)}}, Code::kInvalidArgument,
                 "two leaves have the name the root");
  expect_refusal({{KeyPath(1000000, d("x")), i(1)}}, Code::kDataLoss, "1000000 levels");
}

TEST(Tree, IsMadeFromLiterals) {
  const Array array = Array::from<float>({1}, {1});
  const Tree tree{{"step", 7}, {"params", {{"w", array}, {"b", array}}}, {"name", "adam"}};
  ASSERT_NE(tree.dict(), nullptr);
  EXPECT_EQ(tree.dict()->size(), 3U);
  EXPECT_EQ(tree.at("params/w").array()->as<float>()[0], 1);
  EXPECT_EQ(std::get<std::string>(tree.at("name").value()), "adam");
  // what braces meant before, they still mean
  const Tree list(Tree::List{Tree(1), Tree(2)});
  EXPECT_EQ(Tree{list}.list()->size(), 2U);
  EXPECT_EQ(Tree::List{list}.size(), 1U);
  EXPECT_EQ((Tree{Tree::Dict{{"a", 1}}}), (Tree{{"a", 1}}));
  EXPECT_EQ((Tree{{"a", "b"}}).at("a"), Tree("b"));
  EXPECT_EQ(Tree{}, Tree(EmptyNode::kNone));
  // an array whose type is known is an array, not a custom leaf
  EXPECT_NE((Tree{{"w", TypedArray<float>(array)}}).at("w").array(), nullptr);
}

TEST(Tree, FindsNodesBelowKeys) {
  const Tree tree{{"a", {{"b", Tree(Tree::List{Tree(5), Tree(6)})}, {"c/d", 8}}}, {"e", 1}};
  EXPECT_EQ(tree.at("a/b/1"), Tree(6));
  EXPECT_EQ(tree.at("e"), Tree(1));
  EXPECT_THAT([&] { (void)tree.at("a/x/y"); },
              FailsWith(Code::kNotFound, "the tree has no 'a/x': 'a' has 'b', 'c/d'"));
  EXPECT_THAT([&] { (void)tree.at("x"); },
              FailsWith(Code::kNotFound, "no 'x': the root has 'a', 'e'"));
  EXPECT_THAT([&] { (void)tree.at("a/b/2"); },
              FailsWith(Code::kNotFound, "no 'a/b/2': 'a/b' has 2 items"));
  EXPECT_THAT([&] { (void)tree.at("e/f"); }, FailsWith(Code::kNotFound, "'e' is a leaf"));
  EXPECT_THAT([&] { (void)tree.at("a/c/e"); }, FailsWith(Code::kNotFound, "no 'a/c'"));
  for (const char* bad : {"", "/", "a/", "/a", "a//b", ".", "a.", ".a", "a..b"})
    EXPECT_THAT([&] { (void)tree.at(bad); }, FailsWith(Code::kNotFound)) << bad;
  EXPECT_THAT([&] { (void)Tree().at("x"); }, FailsWith(Code::kNotFound, "the root is empty"));
}

TEST(Tree, FindsNodesByTheNamesThatAreListed) {
  const Tree tree{{"a", {{"b", Tree(Tree::List{Tree(5), Tree(6)})}, {"c/d", 8}, {"e.f", 9}}}};
  for (const TreeEntry& entry : flatten(tree))
    EXPECT_EQ(tree.at(param_name(entry.path)), entry.value) << param_name(entry.path);
  for (const char* name : {"a/b/1", "a.b.1", "a/b.1", "a.b/1"})
    EXPECT_EQ(tree.at(name), Tree(6)) << name;
  EXPECT_EQ(tree.at("a/c/d"), Tree(8));
  EXPECT_EQ(tree.at("a/e.f"), Tree(9));
  EXPECT_THAT([&] { (void)tree.at("a.e/f"); }, FailsWith(Code::kNotFound, "no 'a.e': 'a' has"));
  EXPECT_THAT([&] { (void)tree.at("a.b.2"); },
              FailsWith(Code::kNotFound, "no 'a.b.2': 'a.b' has 2 items"));
}

TEST(Tree, TheLongestKeyIsTriedFirst) {
  const Tree tree{{"a", {{"b", 1}, {"c", {{"d", 2}}}}}, {"a.b", 3}, {"a.c", {{"e", 4}}}};
  EXPECT_EQ(tree.at("a.b"), Tree(3));
  EXPECT_EQ(tree.at("a/b"), Tree(1));
  EXPECT_EQ(tree.at("a.c.e"), Tree(4));
  EXPECT_EQ(tree.at("a.c.d"), Tree(2));  // the longer key leads nowhere
  EXPECT_THAT([&] { (void)tree.at("a.c.x"); },
              FailsWith(Code::kNotFound, "no 'a.c.x': 'a.c' has 'e'"));
}

struct Comparable {
  int value = 0;
  bool operator==(const Comparable&) const = default;
};
struct Incomparable {
  int value = 0;
};

TEST(Tree, ComparesStructureAndLeaves) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto array = [](float x) { return Array::from<float>({x}, {1}); };
  EXPECT_EQ((Tree{{"a", 1}, {"b", array(2)}}), (Tree{{"b", array(2)}, {"a", 1}}));
  EXPECT_NE((Tree{{"a", 1}, {"b", array(2)}}), (Tree{{"a", 1}, {"b", array(3)}}));
  EXPECT_NE((Tree{{"a", 1}}), (Tree{{"a", 1}, {"b", 1}}));
  EXPECT_NE((Tree{{"a", 1}}), (Tree{{"b", 1}}));
  EXPECT_NE((Tree{{"a", 1}, {"a", 1}}), (Tree{{"a", 1}, {"b", 1}}));
  EXPECT_NE((Tree{{"a", 1}, {"b", 1}}), (Tree{{"a", 1}, {"a", 1}}));
  EXPECT_EQ(Tree(7), Tree(7U));
  EXPECT_NE(Tree(-1), Tree(~std::uint64_t{0}));
  EXPECT_NE(Tree(7), Tree(7.0));
  EXPECT_NE(Tree(1), Tree(true));
  EXPECT_EQ(Tree(nan), Tree(nan));
  EXPECT_NE(Tree(0.0), Tree(-0.0));
  EXPECT_EQ(Tree(std::complex(nan, 1.0)), Tree(std::complex(nan, 1.0)));
  EXPECT_NE(Tree(std::complex(1.0, 0.0)), Tree(std::complex(1.0, -0.0)));
  EXPECT_EQ(Tree(Tree::Dict{}), Tree(EmptyNode::kDict));
  EXPECT_EQ(Tree(EmptyNode::kTuple), Tree(Tree::Tuple{}));
  EXPECT_NE(Tree(Tree::List{}), Tree(EmptyNode::kDict));
  EXPECT_NE(Tree(EmptyNode::kNone), Tree(Tree::Dict{}));
  EXPECT_NE(Tree(Tree::List{Tree(1)}), Tree(Tree::Tuple{{Tree(1)}}));
  const Tree point(Tree::NamedTuple{"m", "Point", {{"x", Tree(1)}, {"y", Tree(2)}}});
  EXPECT_EQ(point, Tree(point));
  EXPECT_NE(point, Tree(Tree::NamedTuple{"m", "Pair", {{"x", Tree(1)}, {"y", Tree(2)}}}));
  EXPECT_NE(point, Tree(Tree::NamedTuple{"m", "Point", {{"y", Tree(2)}, {"x", Tree(1)}}}));
  EXPECT_EQ(Tree(Comparable{1}), Tree(Comparable{1}));
  EXPECT_NE(Tree(Comparable{1}), Tree(Comparable{2}));
  const Tree incomparable(Incomparable{1});
  EXPECT_EQ(incomparable, Tree(incomparable));
  EXPECT_NE(incomparable, Tree(Incomparable{1}));
  EXPECT_NE(incomparable, Tree(Comparable{1}));
}

TEST(Tree, ComparingRefusesTreesThatAreTooDeep) {
  Tree deep(1);
  for (int level = 0; level < 1001; ++level) {
    Tree::List above;
    above.push_back(std::move(deep));  // an initializer list would copy all levels below
    deep = Tree(std::move(above));
  }
  EXPECT_THAT([&] { (void)(deep == Tree(deep)); },
              FailsWith(Code::kInvalidArgument, "1000 levels"));
}

}  // namespace
}  // namespace cairn
