// Choosing tensors and parts of them: globs and slices.
#include <cairn/inspect.h>
#include <gtest/gtest.h>

#include "tests/support/matchers.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::make_array;
using testing::MemoryCheckpoint;

TEST(Glob, Matches) {
  const struct {
    const char* pattern;
    const char* text;
    bool matches;
  } kCases[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "a.b.c", true},
      {"a*c", "abc", true},
      {"a*c", "abcd", false},
      {"a*b*c", "a.b.b.c", true},
      {"*.kernel", "params.dense.kernel", true},
      {"*.kernel", "params.dense.kernels", false},
      {"params.?", "params.w", true},
      {"params.?", "params.", false},
      {"?", "é", true},
      {"??", "é", false},
      {"[abc]x", "bx", true},
      {"[abc]x", "dx", false},
      {"[!abc]x", "dx", true},
      {"[!abc]x", "ax", false},
      {"[a-c0-9]", "7", true},
      {"[a-c0-9]", "d", false},
      {"[]]", "]", true},
      {"[!]]", "]", false},
      {"[a-]", "-", true},
      {"[à-ü]", "é", true},
      {"[abc", "[abc", true},
      {"a[", "a[", true},
      {"layers.[0-9].*", "layers.7.w", true},
      {"layers.[0-9].*", "layers.17.w", false},
      {"*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
      {"**", "x", true},
      {"x**", "x", true},
      {"\xff", "\xff", true},
      {"\xff", "\xfe", false},
      {"[ÿ]", "\xff", false},  // U+00FF has other bytes
      {"[\xfe-\xff]", "\xff", true},
      {"[\xfe-\xff]", "ÿ", false},
      {"[!a]", "\xff", true},
  };
  for (const auto& c : kCases)
    EXPECT_EQ(glob_match(c.pattern, c.text), c.matches) << c.pattern << " ~ " << c.text;
}

TEST(Glob, SelectsIncludedButNotExcluded) {
  MemoryCheckpoint checkpoint;
  for (const char* name : {"a.w", "a.b", "c.w"})
    checkpoint.add(name, make_array<float>(DType::kFloat32, {1}, {0}));
  checkpoint.add("d.w", make_array<float>(DType::kFloat32, {1}, {0})).item = "other";
  using Indices = std::vector<std::size_t>;
  const auto select = [&](std::vector<std::string> include, std::vector<std::string> exclude) {
    return select_tensors(checkpoint, include, exclude);
  };
  EXPECT_EQ(select({}, {}), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(select({"*.w"}, {}), (Indices{0, 2, 3}));
  EXPECT_EQ(select({"*.w"}, {"c.*"}), (Indices{0, 3}));
  EXPECT_EQ(select({"a.b", "c.w"}, {}), (Indices{1, 2}));
  EXPECT_EQ(select({"other/*"}, {}), (Indices{3}));
  EXPECT_EQ(select({"nothing"}, {}), Indices{});
  EXPECT_EQ(select({"a/*"}, {"a/b"}), (Indices{0}));
  EXPECT_EQ(select({"*/w"}, {}), (Indices{0, 2, 3}));
  EXPECT_EQ(select({"other/d/w"}, {}), (Indices{3}));
}

TEST(Glob, ASlashStandsForADot) {
  MemoryCheckpoint checkpoint;
  const auto add = [&](const std::string& name, KeyPath path) {
    checkpoint.add(name, make_array<float>(DType::kFloat32, {1}, {0})).path = std::move(path);
  };
  const auto key = [](const char* text) { return Key{text, KeyType::kDict}; };
  add("p.d.w", {key("p"), key("d"), key("w")});
  add("p.d.b", {key("p.d.b")});  // one flat key, as in safetensors
  add("p/d.e", {key("p/d"), key("e")});
  add("p/d/f", {key("p/d/f")});
  add("x/y", {key("x/y")});
  add("x.y", {key("x"), key("y")});
  const auto select = [&](const std::string& glob) {
    std::vector<std::string> names;
    for (const std::size_t i : select_tensors(checkpoint, std::vector{glob}))
      names.push_back(checkpoint.tensors()[i].name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(select("p/d/*"), (Names{"p.d.w", "p.d.b", "p/d.e", "p/d/f"}));
  EXPECT_EQ(select("p.d/*"), (Names{"p.d.w", "p.d.b"}));
  EXPECT_EQ(select("p.d.*"), (Names{"p.d.w", "p.d.b"}));
  EXPECT_EQ(select("*/b"), (Names{"p.d.b"}));
  EXPECT_EQ(select("p/d/e"), (Names{"p/d.e"}));
  EXPECT_EQ(select("p[/]d/*"), (Names{"p/d.e", "p/d/f"}));  // in brackets it is itself
  // the very name of a leaf is that leaf only
  EXPECT_EQ(select("x/y"), (Names{"x/y"}));
  EXPECT_EQ(select("x.y"), (Names{"x.y"}));
  EXPECT_EQ(select("x/?"), (Names{"x/y", "x.y"}));
  for (const TensorInfo& leaf : checkpoint.tensors())
    EXPECT_EQ(select(leaf.name), Names{leaf.name});
}

TEST(Slice, Parses) {
  const Shape shape{10, 20, 30};
  const struct {
    const char* text;
    Box box;
    Shape result;
  } kCases[] = {
      {"", Box::whole(shape), shape},
      {":", Box::whole(shape), shape},
      {"...", Box::whole(shape), shape},
      {"3", {{3, 0, 0}, {1, 20, 30}}, {20, 30}},
      {"-1", {{9, 0, 0}, {1, 20, 30}}, {20, 30}},
      {"0:8, :, 3", {{0, 0, 3}, {8, 20, 1}}, {8, 20}},
      {" 2 : 4 ,-5:", {{2, 15, 0}, {2, 5, 30}}, {2, 5, 30}},
      {"..., 0", {{0, 0, 0}, {10, 20, 1}}, {10, 20}},
      {"1,...,2", {{1, 0, 2}, {1, 20, 1}}, {20}},
      {"1,2,3,...", {{1, 2, 3}, {1, 1, 1}}, {}},
      {"1,2,3", {{1, 2, 3}, {1, 1, 1}}, {}},
      {"5:3", {{5, 0, 0}, {0, 20, 30}}, {0, 20, 30}},
      {"8:100", {{8, 0, 0}, {2, 20, 30}}, {2, 20, 30}},
      {"-100:2", {{0, 0, 0}, {2, 20, 30}}, {2, 20, 30}},
      {":-8", {{0, 0, 0}, {2, 20, 30}}, {2, 20, 30}},
      {"-9223372036854775808:9223372036854775807", Box::whole(shape), shape},
  };
  for (const auto& c : kCases) {
    const SliceSpec spec = parse_slice(c.text, shape);
    EXPECT_EQ(spec.box, c.box) << c.text;
    EXPECT_EQ(spec.shape, c.result) << c.text;
  }
  EXPECT_EQ(parse_slice("", Shape{}).box, Box::whole({}));
  EXPECT_EQ(parse_slice("...", Shape{}).shape, Shape{});
  EXPECT_EQ(parse_slice(":", Shape{0}).shape, Shape{0});
}

TEST(Slice, RefusesNamingTheDimension) {
  const struct {
    const char* text;
    Code code;
    const char* expect;
  } kCases[] = {
      {"10", Code::kOutOfRange, "dimension 0: the dimension has 10 elements"},
      {":, -21", Code::kOutOfRange, "dimension 1"},
      {"0,0,0,0", Code::kOutOfRange, "4 dimensions, the array 3"},
      {"0:8:2", Code::kInvalidArgument, "steps"},
      {"x", Code::kInvalidArgument, "expected an integer"},
      {"1,", Code::kInvalidArgument, "dimension 1"},
      {",1", Code::kInvalidArgument, "dimension 0"},
      {"1.5", Code::kInvalidArgument, "expected an integer"},
      {"...,...", Code::kInvalidArgument, "only once"},
      {"99999999999999999999", Code::kInvalidArgument, "expected an integer"},
  };
  for (const auto& c : kCases)
    EXPECT_THAT(
        [&] {
          parse_slice(c.text, Shape{10, 20, 30});
        },
        FailsWith(c.code, c.expect))
        << c.text;
}

}  // namespace
}  // namespace cairn
