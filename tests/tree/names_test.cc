// names_test.cc -- typed names, and the names of nodes in messages.
#include <cairn/tree/names.h>
#include <gtest/gtest.h>

#include "cairn/tree/transform/regex.h"

namespace cairn {
namespace {

TEST(Names, ASlashStandsForADotAndADotForItself) {
  EXPECT_TRUE(is_typed_as("a/b", "a.b"));
  EXPECT_TRUE(is_typed_as("a/b", "a/b"));
  EXPECT_TRUE(is_typed_as("a/b.c/d", "a/b.c.d"));
  EXPECT_TRUE(is_typed_as("", ""));
  EXPECT_FALSE(is_typed_as("a.b", "a/b"));
  EXPECT_FALSE(is_typed_as("a/b", "a-b"));
  EXPECT_FALSE(is_typed_as("a/b", "a.b.c"));
  EXPECT_FALSE(is_typed_as("a/b/c", "a.b"));
}

TEST(Names, ASlashOfAnExpressionStandsForADot) {
  const struct {
    const char* typed;
    const char* expression;
  } kCases[] = {
      {"", ""},
      {"a.b", "a.b"},
      {"a/b", "a[/.]b"},
      {"a\\/b", "a[/.]b"},
      {"a/+", "a[/.]+"},
      {"a/([^/]+)/b", "a[/.]([^/.]+)[/.]b"},
      {"[a/]x", "[a/.]x"},
      {"[]/]/", "[]/.][/.]"},
      {"[^]/]/", "[^]/.][/.]"},
      {"[\\]/]/", "[\\]/.][/.]"},
      {"\\[/]", "\\[[/.]]"},
      {"\\\\/", "\\\\[/.]"},
      {"a\\", "a\\"},
      {"[/", "[/."},
  };
  for (const auto& c : kCases) EXPECT_EQ(with_dots_in_expression(c.typed), c.expression) << c.typed;
  Regex regex(with_dots_in_expression("^a/([^/]+)/([]/-]+)$"));
  EXPECT_TRUE(regex.full_match("a.x.].-/"));
  EXPECT_FALSE(regex.full_match("a.x.y.]"));
}

TEST(Names, NodesAreNamedAsTheyAreListed) {
  const KeyPath path{{"a", KeyType::kDict}, {"0", KeyType::kSequence}, {"b", KeyType::kDict}};
  EXPECT_EQ(leaf_text(path), "a.0.b");
  EXPECT_EQ(quoted_leaf_text(path), "'a.0.b'");
  EXPECT_EQ(leaf_text({}), "the root");
  EXPECT_EQ(quoted_leaf_text({}), "the root");
}

}  // namespace
}  // namespace cairn
