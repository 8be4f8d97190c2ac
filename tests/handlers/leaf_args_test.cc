// leaf_args_test.cc -- nodes of trees found by their paths.
#include <cairn/handlers/leaf_args.h>
#include <gtest/gtest.h>

#include <ctime>
#include <optional>
#include <string>
#include <utility>

namespace cairn::orbax {
namespace {

Tree::Dict members(std::int64_t count) {
  Tree::Dict dict;
  for (std::int64_t i = 0; i < count; ++i) dict.emplace_back("w" + std::to_string(i), Tree(i));
  return dict;
}

TEST(NodeFinder, FindsWhatTreeFinds) {
  for (const std::int64_t count : {1, 15, 16, 300}) {
    const Tree tree{{"a", Tree(members(count))},
                    {"b", Tree(Tree::List{Tree(7), Tree(members(count))})},
                    {"c", Tree(Tree::NamedTuple{"m", "T", members(count)})}};
    NodeFinder finder(tree);
    for (const TreeEntry& entry : flatten(tree)) {
      ASSERT_NE(finder.at(entry.path), nullptr) << path_text(entry.path);
      EXPECT_EQ(*finder.at(entry.path), entry.value);
    }
    EXPECT_EQ(finder.at({}), &tree);
    EXPECT_EQ(finder.at({{"a"}, {"x"}}), nullptr);
    EXPECT_EQ(finder.at({{"x"}, {"w0"}}), nullptr);
    EXPECT_EQ(finder.at({{"a"}, {"w0"}, {"w0"}}), nullptr);
    EXPECT_EQ(finder.at({{"b"}, {"2", KeyType::kSequence}}), nullptr);
  }
  EXPECT_EQ(NodeFinder(std::optional<Tree>()).at({}), nullptr);
}

// Member by member, this would take minutes.
TEST(NodeFinder, TakesLinearTimeForALargeDict) {
  const Tree tree(members(200'000));
  NodeFinder finder(tree);
  const std::clock_t start = std::clock();
  for (const TreeEntry& entry : flatten(tree)) ASSERT_NE(finder.at(entry.path), nullptr);
  EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace cairn::orbax
