// structure_test.cc -- what keeps a checkpoint from fitting a target, and pouring one into the
// other. Every case was run with Orbax 0.12.8.
#include <cairn/tree.h>
#include <gmock/gmock.h>

#include "tests/tree/short_names.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::dict;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::i;

Tree none() { return Tree(EmptyNode::kNone); }
Tree list(Tree::List items) { return Tree(std::move(items)); }
Tree tuple(Tree::List items) { return Tree(Tree::Tuple{std::move(items)}); }

std::string text(const Tree& tree) {
  const auto members = [](const Tree::Dict& dict) {
    std::string out;
    for (const auto& [key, child] : dict) out += (out.empty() ? "" : ",") + key + ":" + text(child);
    return out;
  };
  const auto items = [](const Tree::List& list) {
    std::string out;
    for (const auto& child : list) out += (out.empty() ? "" : ",") + text(child);
    return out;
  };
  if (const auto* d = tree.dict()) return "{" + members(*d) + "}";
  if (const auto* n = tree.named_tuple()) return n->name + "{" + members(n->fields) + "}";
  if (const auto* l = tree.list()) return "[" + items(*l) + "]";
  if (const auto* t = tree.tuple()) return "(" + items(t->items) + ")";
  if (const auto* number = std::get_if<std::int64_t>(&tree.value())) return std::to_string(*number);
  if (const auto* empty = std::get_if<EmptyNode>(&tree.value()))
    return std::string(empty_node_name(*empty));
  return "...";
}

// What the checkpoint holds: {a: 1, n: None, e: {}, l: [2, 3], t: [4], b: {c: 5}}.
Tree stored() {
  return dict({{"a", i(1)},
               {"n", none()},
               {"e", Tree(EmptyNode::kDict)},
               {"l", list({i(2), i(3)})},
               {"t", list({i(4)})},
               {"b", dict({{"c", i(5)}})}});
}
// A target of the same structure, with -1 for every leaf, and `key` replaced (or added).
Tree target(const std::string& key = "a", Tree value = i(-1)) {
  Tree::Dict out = {{"a", i(-1)},         {"n", none()},
                    {"e", dict({})},      {"l", tuple({i(-1), i(-1)})},
                    {"t", list({i(-1)})}, {"b", Tree(Tree::NamedTuple{"m", "B", {{"c", i(-1)}}})}};
  for (auto& [name, child] : out)
    if (name == key) {
      child = std::move(value);
      return dict(std::move(out));
    }
  out.emplace_back(key, std::move(value));
  return dict(std::move(out));
}
Tree without(const std::string& key) {
  Tree tree = target();
  std::erase_if(std::get<Tree::Dict>(tree.value()),
                [&](const auto& member) { return member.first == key; });
  return tree;
}

TEST(Structure, StoredFormHasListsAndDictsAlone) {
  EXPECT_EQ(text(as_stored(target())), "{a:-1,n:None,e:{},l:[-1,-1],t:[-1],b:{c:-1}}");
  EXPECT_EQ(text(as_stored(tuple({}))), "()");
}

TEST(Structure, ValuesArePouredIntoTheTargetsContainers) {
  EXPECT_EQ(text(restore_into(target(), stored())), "{a:1,n:None,e:{},l:(2,3),t:[4],b:B{c:5}}");
}

TEST(Structure, EmptyNodesAreTheTargetsAndFitLeaves) {
  EXPECT_EQ(text(restore_into(target("a", tuple({})), stored())),
            "{a:(),n:None,e:{},l:(2,3),t:[4],b:B{c:5}}");
  EXPECT_EQ(text(restore_into(target("n", i(7)), stored())),
            "{a:1,n:None,e:{},l:(2,3),t:[4],b:B{c:5}}");
  const Tree::NamedTuple empty{"optax", "EmptyState", {}};
  EXPECT_EQ(text(restore_into(target("e", Tree(empty)), stored())),
            "{a:1,n:None,e:EmptyState{},l:(2,3),t:[4],b:B{c:5}}");
}

TEST(Structure, PlaceholdersAreLeftOutAndNeedNotBeStored) {
  EXPECT_EQ(text(restore_into(target("a", Tree(Placeholder{})), stored())),
            "{a:...,n:None,e:{},l:(2,3),t:[4],b:B{c:5}}");
  EXPECT_EQ(text(restore_into(target("q", Tree(Placeholder{})), stored())),
            "{a:1,n:None,e:{},l:(2,3),t:[4],b:B{c:5},q:...}");
  EXPECT_EQ(structure_differences(stored(), target("b", Tree(Placeholder{}))).size(), 1U);
}

struct Differing {
  const char* name;
  Tree target;
  std::vector<std::string> paths;  // and what each side has
};

TEST(Structure, EveryDifferenceIsListed) {
  const Differing kCases[] = {
      {"dict for a leaf",
       target("a", dict({{"x", i(1)}})),
       {"\n  a: source: a leaf, target: a dict of 1"}},
      {"leaf for a dict", target("b", i(1)), {"\n  b: source: a dict of 1, target: a leaf"}},
      {"missing in the target", without("a"), {"\n  a: source: a leaf, target: nothing"}},
      {"missing in the source",
       target("z", dict({{"q", i(1)}})),
       {"\n  z: source: nothing, target: a dict of 1"}},
      {"empty dict for a dict",
       target("b", dict({})),
       {"\n  b.c: source: a leaf, target: nothing"}},
      {"empty list for a dict",
       target("b", list({})),
       {"\n  b: source: a dict of 1, target: an empty List"}},
      {"None for a dict", target("b", none()), {"\n  b: source: a dict of 1, target: None"}},
      {"empty tuple for a list",
       target("t", tuple({})),
       {"\n  t: source: a list of 1, target: an empty Tuple"}},
      {"shorter list",
       target("l", list({i(1)})),
       {"\n  l: source: a list of 2, target: a list of 1"}},
      {"dict for a list",
       target("t", dict({{"0", i(1)}})),
       {"\n  t: source: a list of 1, target: a dict of 1"}},
      {"dict for an empty node",
       target("e", dict({{"x", i(1)}})),
       {"\n  e: source: an empty Dict, target: a dict of 1"}},
      {"another tree", i(1), {"the root: source: a dict of 6, target: a leaf"}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(structure_differences(stored(), c.target).size(), c.paths.size());
    const auto result = try_call([&] { return restore_into(c.target, stored()); });
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
    for (const auto& path : c.paths)
      EXPECT_THAT(result.error().message(), AllOf(HasSubstr(path), HasSubstr("partial_restore")));
  }
}

TEST(Structure, SeveralDifferencesAreInOneError) {
  Tree wanted = target("l", list({i(0)}));
  std::get<Tree::Dict>(wanted.value())[0].second = dict({{"x", i(0)}});
  std::get<Tree::Dict>(wanted.value()).emplace_back("z", i(0));
  std::vector<std::string> paths;
  for (const auto& difference : structure_differences(stored(), wanted))
    paths.push_back(path_text(difference.path));
  EXPECT_THAT(paths, ElementsAre("['a']", "['l']", "['z']"));
}

TEST(Structure, PartialDropsAndKeeps) {
  const Tree wanted = dict({{"a", i(-1)}, {"new", dict({{"v", i(7)}, {"w", list({i(8), i(9)})}})}});
  EXPECT_EQ(text(restore_into(wanted, stored(), MatchMode::kPartial)), "{a:1,new:{v:7,w:[8,9]}}");
  EXPECT_THAT(plan_restore(stored(), wanted, MatchMode::kPartial),
              ElementsAre(KeyPath{{"a", KeyType::kDict}}));
  const Tree placeholder = dict({{"a", Tree(Placeholder{})}, {"n", none()}, {"e", tuple({})}});
  EXPECT_EQ(text(restore_into(placeholder, stored(), MatchMode::kPartial)), "{a:1,n:None,e:()}");
  EXPECT_EQ(text(restore_into(dict({{"a", i(0)}, {"b", none()}}), stored(), MatchMode::kPartial)),
            "{a:1,b:None}");
}

TEST(Structure, PartialStillRefusesOtherContainers) {
  const Tree kCases[] = {
      dict({{"l", list({i(0)})}}),           // another length
      dict({{"l", dict({{"0", i(0)}})}}),    // a dict for a list
      dict({{"b", i(3)}}),                   // a leaf for a dict
      dict({{"a", dict({{"x", i(1)}})}}),    // a dict for a leaf
      dict({{"b", dict({})}}),               // an empty node for a dict
      dict({{"t", none()}}),                 // None for a list
      dict({}),                              // likewise, at the root
      dict({{"t", dict({})}, {"a", i(0)}}),  // an empty node for a list
  };
  for (const auto& wanted : kCases) {
    const auto result =
        try_call([&] { return restore_into(wanted, stored(), MatchMode::kPartial); });
    ASSERT_FALSE(result.ok()) << text(wanted);
    EXPECT_THAT(result.error().message(), Not(HasSubstr("partial_restore")));
  }
}

TEST(Structure, RefusesValuesWithoutALeaf) {
  const auto result = try_call([] {
    return fill_target(target(), {{{{"b", KeyType::kDict}}, i(1)}});
  });
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message(), HasSubstr("'b'"));
}

TEST(Structure, DepthIsBounded) {
  Tree deep = i(1);
  for (int level = 0; level < 2000; ++level) deep = list({std::move(deep)});
  EXPECT_THROW(restore_into(deep, deep), Error);
  EXPECT_THROW(as_stored(deep), Error);
  EXPECT_THROW(fill_target(deep, {}), Error);
}

}  // namespace
}  // namespace cairn
