// key_types_test.cc -- the record of the types of keys, and records that do not fit the tree.
#include <cairn/error.h>
#include <cairn/tree/metadata/key_types.h>
#include <cairn/tree/metadata/tree_metadata.h>
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;

KeyPath dict_path(const std::vector<std::string>& keys) {
  KeyPath path;
  for (const std::string& key : keys) path.push_back({key, KeyType::kDict});
  return path;
}

const std::vector<DictKeyTypes> kRecord = {
    {.dict = {"opt", "state"}, .type = "int"},
    {.dict = {}, .types = {{"opt", "str"}, {"1", "int"}, {"q\"\n\u00e9", "tuple"}}}};

TEST(KeyTypes, TextAndBack) {
  EXPECT_EQ(key_types_text({}), "");
  EXPECT_EQ(key_types_text({kRecord[0]}), R"([{"dict": ["opt", "state"], "type": "int"}])");
  EXPECT_EQ(parse_key_types(key_types_text(kRecord)), kRecord);
  TreeMetadata metadata;
  metadata.leaves.push_back({.path = dict_path({"a"}), .value_type = "scalar"});
  metadata.key_types = key_types_text(kRecord);
  EXPECT_EQ(parse_tree_metadata(tree_metadata_text(metadata)).key_types, metadata.key_types);
}

TEST(KeyTypes, FaultsNameTheDict) {
  const KeyPath zero = dict_path({"s", "0"});
  const KeyPath minus = dict_path({"s", "-7", "x"});
  const KeyPath text = dict_path({"t", "01"});
  const KeyPath item = {{"l", KeyType::kDict}, {"0", KeyType::kSequence}};
  const std::vector<const KeyPath*> leaves = {&zero, &minus, &text, &item};
  const auto faults = key_type_faults({{.dict = {"s"}, .type = "int"},
                                       {.dict = {"t"}, .type = "int"},
                                       {.dict = {"l"}, .type = "int"},
                                       {.dict = {"s"}, .types = {{"0", "int"}, {"1", "int"}}},
                                       {.dict = {"s"}, .types = {{"0", "bool"}}}},
                                      leaves);
  EXPECT_THAT(faults,
              ElementsAre("", HasSubstr("\"01\" is not of type int"), "the tree has no such dict",
                          "the dict has no key \"1\"", HasSubstr("not of type bool")));
  EXPECT_THAT(
      [&] {
        check_key_types({{.dict = {"x", "y"}, .type = "int"}}, leaves, Code::kDataLoss);
      },
      FailsWith(Code::kDataLoss, R"(["x", "y"]: the tree has no such dict)"));
}

TEST(KeyTypes, DamagedText) {
  const std::pair<const char*, const char*> kTable[] = {
      {"", ""},
      {"5", "expected an array"},
      {"null", "expected an array"},
      {"{}", "expected an array"},
      {"[5]", "expected an object"},
      {"[[]]", "expected an object"},
      {R"([{}])", "without 'dict'"},
      {R"([{"type": "int"}])", "without 'dict'"},
      {R"([{"dict": ["a"]}])", "neither or both"},
      {R"([{"dict": ["a"], "type": ""}])", "neither or both"},
      {R"([{"dict": ["a"], "types": {}}])", "neither or both"},
      {R"([{"dict": ["a"], "type": "int", "types": {"0": "int"}}])", "neither or both"},
      {R"([{"dict": "a", "type": "int"}])", "expected an array"},
      {R"([{"dict": null, "type": "int"}])", "expected an array"},
      {R"([{"dict": [1], "type": "int"}])", "expected a string"},
      {R"([{"dict": [["a"]], "type": "int"}])", "expected a string"},
      {R"([{"dict": ["a"], "type": 1}])", "expected a string"},
      {R"([{"dict": ["a"], "type": null}])", "expected a string"},
      {R"([{"dict": ["a"], "types": ["int"]}])", "expected an object"},
      {R"([{"dict": ["a"], "types": {"0": 1}}])", "expected a string"},
      {R"([{"dict": ["a"], "types": {0: "int"}}])", ""},
      {R"([{"dict": ["a"], "type": "int"}] x)", ""},
      {R"([{"dict": ["a"], "type": "int"},])", ""},
      {R"([{"dict": ["a",], "type": "int"}])", ""},
      {"[{\"dict\": [\"\xff\"], \"type\": \"int\"}]", ""},
      {"[{\"dict\": [\"a\nb\"], \"type\": \"int\"}]", ""},
      {"\xef\xbb\xbf[]", ""},
  };
  for (const auto& [text, message] : kTable) {
    const auto parse = [&json = text] { parse_key_types(json); };
    EXPECT_THAT(parse, FailsWith(Code::kDataLoss, message)) << text;
  }
  const std::string whole = key_types_text(kRecord);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT([&] { parse_key_types(whole.substr(0, size)); }, FailsWith(Code::kDataLoss, ""))
        << size;
  const std::string deep = "[{\"dict\": [], \"type\": \"int\", \"x\": ";
  EXPECT_THAT([&] { parse_key_types(deep + std::string(1'000'000, '[')); },
              FailsWith(Code::kDataLoss, ""));
}

}  // namespace
}  // namespace cairn
