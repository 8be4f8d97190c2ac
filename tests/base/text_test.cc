// Paths as text: their parts, folders and names.
#include <cairn/base/text.h>
#include <gtest/gtest.h>

namespace cairn {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Text, SplitsAtEachSeparator) {
  EXPECT_EQ(split("", '/'), Parts{""});
  EXPECT_EQ(split("a", '/'), Parts{"a"});
  EXPECT_EQ(split("/a//b/", '/'), (Parts{"", "a", "", "b", ""}));
  EXPECT_EQ(split("a:b", ':'), (Parts{"a", "b"}));
}

TEST(Text, FindsTheFolderAndTheNameOfAPath) {
  EXPECT_EQ(parent_of("a"), ".");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("/a/b"), "/a");
  EXPECT_EQ(parent_of("a/b/"), "a/b");
  EXPECT_EQ(name_of("a"), "a");
  EXPECT_EQ(name_of("/a/b"), "b");
  EXPECT_EQ(name_of("a/"), "");
  EXPECT_EQ(folder_prefix("a"), "");
  EXPECT_EQ(folder_prefix("/a"), "/");
  EXPECT_EQ(folder_prefix("/a/b"), "/a/");
  EXPECT_EQ(folder_prefix("a/"), "a/");
}

TEST(Text, KnowsWhichPathsStayBelowAFolder) {
  for (const std::string_view path : {"a", "a/b", "..a/b."}) EXPECT_TRUE(is_below_folder(path));
  for (const std::string_view path : {"", "/a", "a/", "a//b", ".", "a/.", "..", "../a", "a/../b"})
    EXPECT_FALSE(is_below_folder(path)) << path;
  for (const std::string_view path : {"", "/", "a", "/a", "a/", "/a/b/"})
    EXPECT_TRUE(has_only_names(path)) << path;
  for (const std::string_view path : {"//", "//a", "a//", "/a//b", "/.", "./a", "/..", "a/../b"})
    EXPECT_FALSE(has_only_names(path)) << path;
}

TEST(Text, VisitsTheParentsOfAPath) {
  Parts seen;
  const auto note = [&](std::string_view parent) {
    seen.push_back(parent);
    return parent == "a/b";
  };
  EXPECT_TRUE(any_parent("a/b/c/d", note));
  EXPECT_EQ(seen, (Parts{"a", "a/b"}));
  seen.clear();
  EXPECT_FALSE(any_parent("a/c", note, 2));
  EXPECT_FALSE(any_parent("a", note));
  EXPECT_TRUE(seen.empty());
  EXPECT_TRUE(any_parent_from_end("a/b/c/d", note));
  EXPECT_EQ(seen, (Parts{"a/b/c", "a/b"}));
  seen.clear();
  EXPECT_FALSE(any_parent_from_end("/a", note));
  EXPECT_EQ(seen, Parts{""});
  EXPECT_FALSE(any_parent_from_end("a", note));
}

}  // namespace
}  // namespace cairn
