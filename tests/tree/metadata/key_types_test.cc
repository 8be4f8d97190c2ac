// key_types_test.cc -- the record of the types of keys, and records that do not fit the tree.
#include <cairn/error.h>
#include <cairn/tree/metadata/key_types.h>
#include <cairn/tree/metadata/tree_metadata.h>
#include <gmock/gmock.h>

#include <string>
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
  for (const char* text :
       {"", "5", "null", "{}", "[5]", R"([{"type": "int"}])", R"([{"dict": ["a"]}])",
        R"([{"dict": ["a"], "type": "int", "types": {"0": "int"}}])",
        R"([{"dict": "a", "type": "int"}])", R"([{"dict": [1], "type": "int"}])",
        R"([{"dict": ["a"], "types": {"0": 1}}])", R"([{"dict": ["a"], "type": "int"}] x)"})
    EXPECT_THAT([&] { parse_key_types(text); }, FailsWith(Code::kDataLoss, "")) << text;
}

}  // namespace
}  // namespace cairn
