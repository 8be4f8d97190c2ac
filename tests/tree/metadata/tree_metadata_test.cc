// tree_metadata_test.cc -- `_METADATA`: every spelling Orbax has used, and a table of damaged ones.
#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <cairn/tree/metadata/tree_metadata.h>
#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;

constexpr const char* kReal =
    R"j({"tree_metadata": {"('a',)": {"key_metadata": [{"key": "a", "key_type": 2}], "value_metadata": {"value_type": "jax.Array", "skip_deserialize": false, "write_shape": [1, 4]}}, "('b', 's')": {"key_metadata": [{"key": "b", "key_type": 2}, {"key": "s", "key_type": 2}], "value_metadata": {"value_type": "scalar", "skip_deserialize": false}}, "('l', '1', '0')": {"key_metadata": [{"key": "l", "key_type": 2}, {"key": "1", "key_type": 1}, {"key": "0", "key_type": 1}], "value_metadata": {"value_type": "jax.Array", "skip_deserialize": false, "write_shape": [3]}}, "('none',)": {"key_metadata": [{"key": "none", "key_type": 2}], "value_metadata": {"value_type": "None", "skip_deserialize": true}}}, "use_ocdbt": true, "use_zarr3": false, "store_array_data_equal_to_fill_value": true, "custom_metadata": {"k": [1, 2]}})j";

std::string one_leaf(
    const std::string& keys,
    const std::string& value = R"({"value_type": "scalar", "skip_deserialize": false})") {
  return R"j({"tree_metadata": {"x": {"key_metadata": )j" + keys + R"(, "value_metadata": )" +
         value + "}}}";
}

TEST(TreeMetadata, ReadsWhatOrbaxWrites) {
  const TreeMetadata metadata = parse_tree_metadata(kReal);
  ASSERT_EQ(metadata.leaves.size(), 4U);
  EXPECT_EQ(param_name(metadata.leaves[2].path), "l.1.0");
  EXPECT_EQ(path_text(metadata.leaves[2].path), "['l'][1][0]");
  EXPECT_EQ(metadata.leaves[0].write_shape, (Shape{1, 4}));
  EXPECT_EQ(metadata.leaves[1].write_shape, std::nullopt);
  EXPECT_EQ(metadata.leaves[1].value_type, "scalar");
  EXPECT_TRUE(metadata.leaves[3].skip_deserialize);
  EXPECT_EQ(metadata.use_ocdbt, true);
  EXPECT_FALSE(metadata.use_zarr3);
  EXPECT_TRUE(metadata.store_array_data_equal_to_fill_value);
  EXPECT_EQ(metadata.custom_metadata, R"({"k": [1, 2]})");
  EXPECT_EQ(metadata.rich_types, "");
}

TEST(TreeMetadata, MissingFlagsTakeTheValuesOfOldVersions) {
  const TreeMetadata metadata = parse_tree_metadata(R"({"tree_metadata": {}})");
  EXPECT_EQ(metadata.use_ocdbt, std::nullopt);
  EXPECT_FALSE(metadata.use_zarr3);
  EXPECT_FALSE(metadata.store_array_data_equal_to_fill_value);
  EXPECT_EQ(metadata.custom_metadata, "");
  EXPECT_EQ(
      parse_tree_metadata(R"({"tree_metadata": {}, "use_ocdbt": null, "custom_metadata": null})")
          .custom_metadata,
      "");
}

TEST(TreeMetadata, UnknownMembersAreIgnoredEverywhere) {
  const TreeMetadata metadata = parse_tree_metadata(
      R"j({"new": [{"x": 1}], "tree_metadata": {"('a',)": {"more": 1, "key_metadata": [{"also": {}, "key": "a", "key_type": 2}], "value_metadata": {"value_type": "custom", "later": null, "skip_deserialize": false, "write_shape": [1]}}}, "value_metadata_tree": "{}"})j");
  ASSERT_EQ(metadata.leaves.size(), 1U);
  EXPECT_EQ(metadata.leaves[0].value_type, "custom");
  EXPECT_EQ(metadata.rich_types, R"("{}")");
}

TEST(TreeMetadata, TheRecordOfTypesIsKeptAsItIsWritten) {
  const auto record_of = [](const std::string& value) {
    return parse_tree_metadata(R"({"tree_metadata": {}, "value_metadata_tree": )" + value + "}")
        .rich_types;
  };
  for (const std::string text : {R"("{\"a\": []}")", R"("\u007b}")", "\"\xc3\xa9\""}) {
    EXPECT_EQ(record_of(text), text);
    TreeMetadata metadata;
    metadata.rich_types = text;
    EXPECT_EQ(parse_tree_metadata(tree_metadata_text(metadata)).rich_types, text);
  }
  EXPECT_EQ(record_of(R"("")"), "");
  EXPECT_EQ(record_of("null"), "");
  EXPECT_EQ(record_of("{}"), "");
  for (const std::string bad : {R"("\x")", R"("\u12")", "\"\xff\"", "\"\n\"", R"("\)", R"("a)"})
    EXPECT_THAT([&] { record_of(bad); }, FailsWith(Code::kDataLoss)) << bad;
}

TEST(TreeMetadata, KeysMayBeAnything) {
  const auto leaf = [](const std::string& keys) {
    return param_name(parse_tree_metadata(one_leaf(keys)).leaves.at(0).path);
  };
  EXPECT_EQ(leaf("[]"), "");
  EXPECT_EQ(leaf(R"([{"key": "it's \"q\" /.\\ \u00fc\u6f22\t", "key_type": 2}])"),
            "it's \"q\" /.\\ \xc3\xbc\xe6\xbc\xa2\t");
  EXPECT_EQ(leaf(R"([{"key": "", "key_type": 2}, {"key": "007", "key_type": 1}])"), ".7");
  EXPECT_EQ(leaf(R"([{"key": 3, "key_type": 1}])"), "3");
}

// Plain keys take a way of their own, so each kind of key is beside one.
TEST(TreeMetadata, KeysAreQuotedAsPythonQuotesThem) {
  const auto text = [](std::vector<std::string> keys) {
    TreeMetadata metadata;
    KeyPath path;
    for (std::string& key : keys) path.push_back({std::move(key), KeyType::kDict});
    metadata.leaves.push_back({.path = path,
                               .value_type = "np.ndarray",
                               .skip_deserialize = false,
                               .write_shape = std::nullopt});
    const std::string all = tree_metadata_text(metadata);
    EXPECT_EQ(parse_tree_metadata(all).leaves.at(0).path, path);
    return all.substr(all.find('{', 1) + 1, all.find(": {\"key_metadata") - all.find('{', 1) - 1);
  };
  EXPECT_EQ(text({"a"}), R"x("('a',)")x");
  EXPECT_EQ(text({"a", "b c"}), R"x("('a', 'b c')")x");
  EXPECT_EQ(text({}), R"x("()")x");
  EXPECT_EQ(text({"it's", "b"}), R"x("(\"it's\", 'b')")x");
  EXPECT_EQ(text({"a", "b\"c"}), R"x("('a', 'b\"c')")x");
  EXPECT_EQ(text({"a\\", "b"}), R"x("('a\\\\', 'b')")x");
  EXPECT_EQ(text({"a", "\n\x7f"}), R"x("('a', '\\n\\x7f')")x");
  EXPECT_EQ(text({"a", "\u00e9"}), R"x("('a', '\u00e9')")x");
}

TEST(TreeMetadata, DuplicateAndExtendedPathsCountOnce) {
  const auto leaf = [](const std::string& name, const std::string& keys, const std::string& type) {
    return "\"" + name + R"(": {"key_metadata": [)" + keys +
           R"(], "value_metadata": {"value_type": ")" + type + R"(", "skip_deserialize": false}})";
  };
  const std::string z = R"({"key": "z", "key_type": 2})";
  const std::string a = R"({"key": "a", "key_type": 2})";
  const TreeMetadata metadata = parse_tree_metadata(
      R"({"tree_metadata": {)" + leaf("1", z, "Dict") + "," + leaf("2", a, "scalar") + "," +
      leaf("3", z + "," + a, "string") + "," + leaf("4", a, "np.ndarray") + "}}");
  ASSERT_EQ(metadata.leaves.size(), 2U);
  EXPECT_EQ(param_name(metadata.leaves[0].path), "z.a");
  EXPECT_EQ(metadata.leaves[1].value_type, "np.ndarray");
}

// One entry of tree_metadata: a name, and keys of the types `types`, one digit for each.
std::string entry(const std::string& name, const std::vector<std::string>& keys,
                  const std::string& types) {
  std::string text = "\"" + name + R"(": {"key_metadata": [)";
  for (std::size_t i = 0; i < keys.size(); ++i)
    text += (i > 0 ? R"(, {"key": ")" : R"({"key": ")") + keys[i] + R"(", "key_type": )" +
            types[i] + "}";
  return text + R"(], "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": false}})";
}
std::string tree_of(const std::string& first, const std::string& second) {
  return R"({"tree_metadata": {)" + first + ", " + second + "}}";
}

// The names are those of two leaves, so the keys of one of them are damaged.
TEST(TreeMetadata, ALeafDoesNotReplaceALeafOfAnotherName) {
  const struct {
    std::string text;
    const char* expect;
  } kBad[] = {
      {tree_of(entry("('l', '0')", {"l", "1"}, "21"), entry("('l', '1')", {"l", "1"}, "21")),
       "('l', '0') has the keys ['l'][1], and ('l', '1') has the keys ['l'][1]: one of them would "
       "replace the other"},
      {tree_of(entry("('l', '0')", {"l", "0"}, "21"), entry("('l', '1')", {"l", "0"}, "21")),
       "('l', '1') has the keys ['l'][0]"},
      {tree_of(entry("('d', 'x')", {"d", "y"}, "22"), entry("('d', 'y')", {"d", "y"}, "22")),
       "('d', 'x') has the keys ['d']['y'], and ('d', 'y')"},
      {tree_of(entry("('l', '0')", {"l", "0"}, "21"), entry("('w',)", {"l"}, "2")),
       "('w',) has the keys ['l'], and ('l', '0') has the keys ['l'][0]"},
      {tree_of(entry("('w',)", {"w"}, "2"), entry("('l', '0')", {"w", "0"}, "21")),
       "('w',) has the keys ['w'], and ('l', '0') has the keys ['w'][0]"},
      {tree_of(entry("a", {"y"}, "2"), entry("('x',)", {"y"}, "2")), "('x',) has the keys ['y']"},
  };
  for (const auto& bad : kBad)
    EXPECT_THAT([&] { parse_tree_metadata(bad.text); }, FailsWith(Code::kDataLoss, bad.expect));
  // With the names of their keys, the last one counts, as in Python, and an extended leaf does not.
  for (const std::string& good :
       {tree_of(entry("('y',)", {"y"}, "2"), entry("('y',)", {"y"}, "2")),
        tree_of(entry("('w',)", {"w"}, "2"), entry("('w', '0')", {"w", "0"}, "21"))})
    EXPECT_EQ(parse_tree_metadata(good).leaves.size(), 1U) << good;
}

TEST(TreeMetadata, FindsEntriesThatHaveNotTheNameOfTheirKeys) {
  EXPECT_TRUE(find_misnamed_leaves(kReal).empty());
  const auto misnamed = find_misnamed_leaves(
      R"({"use_zarr3": false, "tree_metadata": {)" +
      (entry("('l', '0')", {"l", "1"}, "21") + ", " + entry("('l', '1')", {"l", "1"}, "21")) +
      ", " + entry("x", {}, "") + ", " + entry("()", {}, "") + "}, \"more\": []}");
  ASSERT_EQ(misnamed.size(), 2U);
  EXPECT_EQ(misnamed[0].name, "('l', '0')");
  EXPECT_EQ(path_text(misnamed[0].path), "['l'][1]");
  EXPECT_EQ(misnamed[1].name, "x");
  EXPECT_EQ(misnamed[1].path, KeyPath());
  EXPECT_THAT([] { find_misnamed_leaves(R"({"tree_metadata": {}} x)"); },
              FailsWith(Code::kDataLoss, "unexpected text"));
}

TEST(TreeMetadata, EmptyNodeTypes) {
  for (const char* type : {"None", "Dict", "List", "Tuple", "NamedTuple"})
    EXPECT_TRUE(is_empty_node_type(type));
  for (const char* type : {"", "scalar", "placeholder", "none"})
    EXPECT_FALSE(is_empty_node_type(type));
}

// The text with a space that makes the parser read each leaf value by value.
std::string in_other_form(std::string text) {
  const std::string usual = R"({"key_metadata": )";
  for (std::size_t at = text.find(usual); at != std::string::npos; at = text.find(usual, at + 1))
    text.replace(at, usual.size(), R"({"key_metadata" : )");
  return text;
}

TEST(TreeMetadata, TheFormOfOrbaxIsReadAsAnyOther) {
  const auto leaves = [](const std::string& text) { return parse_tree_metadata(text).leaves; };
  const std::vector<std::string> texts = {
      kReal,
      one_leaf("[]"),
      one_leaf(R"([{"key": "\u00fc\"", "key_type": 2}, {"key": "007", "key_type": 1}])"),
      one_leaf(R"([{"key": "\u00e9", "key_type": 2}])"),
      one_leaf(R"([{"key": "a", "key_type": 2}])",
               R"({"value_type": "\n", "skip_deserialize": true})"),
      one_leaf(R"([{"key": "a", "key_type": 2}])",
               R"({"value_type": "x", "skip_deserialize": true, "write_shape": [2]})"),
      one_leaf(R"([{"key": "a", "key_type": 2}])",
               R"({"value_type": "x", "skip_deserialize": true, "write_shape": [], "new": 1})"),
      one_leaf(R"([{"key": "a", "key_type": 2}], "key_metadata": [{"key": "b", "key_type": 2}])"),
      one_leaf(
          R"([{"key": "a", "key_type": 2}])",
          R"({"value_type": "x", "skip_deserialize": true}, "value_metadata": {"value_type": "y", "skip_deserialize": false})")};
  for (const std::string& text : texts) {
    EXPECT_NE(in_other_form(text), text);
    EXPECT_EQ(leaves(in_other_form(text)), leaves(text)) << text;
  }
  // Any other byte at any place: both forms are refused, or both have the same leaves.
  for (std::size_t at = 0; at < std::string_view(kReal).size(); ++at) {
    for (const char other : {'"', '}', ' ', '1', '\\', '\xe9'}) {
      std::string bad = kReal;
      bad[at] = other;
      const auto usual = try_call([&] { return leaves(bad); });
      const auto plain = try_call([&] { return leaves(in_other_form(bad)); });
      ASSERT_EQ(usual.ok(), plain.ok()) << bad;
      if (usual.ok()) {
        EXPECT_EQ(usual.value(), plain.value()) << bad;
      }
    }
  }
}

TEST(TreeMetadata, LeavesComeBeforeTheRest) {
  std::vector<std::size_t> taken;
  const auto take = [&](const std::vector<LeafMetadata>& leaves) {
    taken.push_back(leaves.size());
  };
  const TreeMetadata metadata = parse_tree_metadata(kReal, take);
  EXPECT_EQ(taken, std::vector<std::size_t>{4});
  EXPECT_TRUE(metadata.leaves.empty());
  EXPECT_EQ(metadata.custom_metadata, R"({"k": [1, 2]})");
  // The last one counts, as in Python.
  const std::string twice = R"({"tree_metadata": {}, )" + std::string(kReal).substr(1);
  taken.clear();
  parse_tree_metadata(twice, take);
  EXPECT_EQ(taken, (std::vector<std::size_t>{0, 4}));
  // Damage after the leaves is still found.
  EXPECT_THROW(parse_tree_metadata(std::string(kReal) + "x", take), Error);
}

TEST(TreeMetadata, EveryTruncationIsRefused) {
  const std::string text = kReal;
  for (std::size_t n = 0; n < text.size(); ++n)
    EXPECT_THROW(parse_tree_metadata(text.substr(0, n)), Error) << n;
}

TEST(TreeMetadata, EveryBitFlipGivesAnErrorOrATree) {
  const std::string text = kReal;
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string bad = text;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = try_call([&] { return parse_tree_metadata(bad); });
    if (!parsed) {
      EXPECT_EQ(parsed.error().code(), Code::kDataLoss) << bit;
    }
  }
}

TEST(TreeMetadata, DamageIsNamed) {
  const std::string key = R"({"key": "a", "key_type": 2})";
  const std::string levels = [&] {
    std::string text = "[" + key;
    for (int n = 0; n < 1000; ++n) text += "," + key;
    return text + "]";
  }();
  const struct {
    std::string text;
    const char* expect;
  } kBad[] = {
      {"", "unexpected end"},
      {"[]", "expected an object"},
      {"{}", "no 'tree_metadata'"},
      {R"({"tree_metadata": null})", "expected an object"},
      {R"({"tree_metadata": {}} x)", "unexpected text"},
      {R"j({"tree_metadata": {"('a',)": {}}})j", "('a',): a leaf without 'key_metadata'"},
      {R"({"tree_metadata": {"x": {"key_metadata": []}}})", "x: a leaf without 'value_metadata'"},
      {R"({"tree_metadata": {"x": 3}})", "expected an object"},
      {one_leaf("{}"), "expected an array"},
      {one_leaf("[3]"), "expected an object"},
      {one_leaf(R"([{"key_type": 2}])"), "a key without 'key'"},
      {one_leaf(R"([{"key": "a"}])"), "key_type 0, expected 1"},
      {one_leaf(R"([{"key": "a", "key_type": 3}])"), "key_type 3, expected 1"},
      {one_leaf(R"([{"key": "a", "key_type": "2"}])"), "expected an integer"},
      {one_leaf(R"([{"key": null, "key_type": 2}])"), "expected an integer"},
      {one_leaf(R"([{"key": "x", "key_type": 1}])"), "the sequence key 'x' is not an index"},
      {one_leaf(R"([{"key": "-1", "key_type": 1}])"), "is not an index"},
      {one_leaf(R"([{"key": "", "key_type": 1}])"), "is not an index"},
      {one_leaf(R"([{"key": "9999999999999999999", "key_type": 1}])"), "is not an index"},
      {one_leaf(levels), "more than 1000 levels"},
      {one_leaf("[]", "{}"), "value_metadata without 'value_type'"},
      {one_leaf("[]", R"({"value_type": 3})"), "expected a string"},
      {one_leaf("[]", R"({"value_type": "x"})"), "value_metadata without 'skip_deserialize'"},
      {one_leaf("[]", R"({"value_type": "x", "write_shape": null})"), "expected an array"},
      {one_leaf("[]", R"({"value_type": "x", "write_shape": [-1]})"), "a negative extent"},
      {one_leaf("[]", R"({"value_type": "x", "write_shape": [1.5]})"), "a 64-bit integer"},
      {one_leaf("[]", R"({"value_type": "x", "write_shape": {}})"), "expected an array"},
      {R"({"tree_metadata": {}, "custom_metadata": )" + std::string(5000, '[') + "}",
       "levels deep"},
      {R"({"tree_metadata": {}, "custom_metadata": })", "expected a value"},
  };
  for (const auto& bad : kBad) {
    const auto parsed = try_call([&] { return parse_tree_metadata(bad.text); });
    ASSERT_FALSE(parsed.ok()) << bad.text.substr(0, 100);
    EXPECT_EQ(parsed.error().code(), Code::kDataLoss);
    EXPECT_THAT(parsed.error().message(), HasSubstr(bad.expect)) << bad.text.substr(0, 100);
  }
}

// Orbax takes any value in these places for true or false.
TEST(TreeMetadata, FlagsAreReadAsPythonReadsThem) {
  const auto flag_of = [](const std::string& value) {
    return parse_tree_metadata(R"({"tree_metadata": {}, "use_zarr3": )" + value + "}").use_zarr3;
  };
  for (const char* text : {"true", "1", "0.5", R"("no")", "[0]", R"({"a": 0})"})
    EXPECT_TRUE(flag_of(text)) << text;
  for (const char* text : {"false", "0", "0.0", R"("")", "[]", "{}", "null"})
    EXPECT_FALSE(flag_of(text)) << text;
}

TEST(TreeMetadata, AMillionLevelsAreRefused) {
  std::string levels = "[";
  for (int n = 0; n < 1000000; ++n) levels += R"({"key": "a", "key_type": 2},)";
  levels.back() = ']';
  EXPECT_THROW(parse_tree_metadata(one_leaf(levels)), Error);
}

}  // namespace
}  // namespace cairn
