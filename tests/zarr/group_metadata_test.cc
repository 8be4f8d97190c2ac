// group_metadata_test.cc -- the documents of groups, and what is wrong with them.
#include <cairn/error.h>
#include <cairn/zarr/metadata/group_metadata.h>
#include <gmock/gmock.h>
#include <tests/support/matchers.h>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;

struct Row {
  const char* name;
  const char* json;
  const char* fault;  // "" if there is none
};

const Row kRows[] = {
    {".zgroup", R"({"zarr_format": 2})", ""},
    {".zgroup", R"({"zarr_format": 2.0, "more": 1})", ""},
    {".zgroup", "\xef\xbb\xbf{\"zarr_format\": 2}", ""},
    {".zgroup", "{}", "zarr_format is missing, expected 2"},
    {".zgroup", R"({"zarr_format": 3})", "zarr_format is 3, expected 2"},
    {".zgroup", R"({"zarr_format": "2"})", "zarr_format is \"2\""},
    {".zgroup", "null", "the document is null, not an object"},
    {".zgroup", "[]", "the document is an array"},
    {".zattrs", "{}", ""},
    {".zattrs", R"({"a": [1, null]})", ""},
    {".zattrs", "null", ""},
    {".zattrs", "7", "the document is a number"},
    {".zmetadata", R"({"metadata": {}, "zarr_consolidated_format": 1})", ""},
    {".zmetadata", R"({"metadata": {".zgroup": {}, "a/.zarray": {}, "a/.zattrs": {}}})", ""},
    {".zmetadata", "{}", "has no 'metadata'"},
    {".zmetadata", R"({"metadata": []})", "metadata is an array"},
    {".zmetadata", R"({"metadata": {"a": {}}})", "'a' of the consolidated metadata"},
    {".zmetadata", R"({"metadata": {"a/.zarray": 1}})", "'a/.zarray' of the consolidated"},
    {"zarr.json", R"({"zarr_format": 3, "node_type": "group"})", ""},
    {"zarr.json",
     R"({"zarr_format": 3, "node_type": "group", "attributes": null, "consolidated_metadata": null})",
     ""},
    {"zarr.json", R"({"zarr_format": 3, "node_type": "group", "x": {"must_understand": false}})",
     ""},
    {"zarr.json", R"({"node_type": "group"})", "zarr_format is missing, expected 3"},
    {"zarr.json", R"({"zarr_format": 2, "node_type": "group"})", "zarr_format is 2, expected 3"},
    {"zarr.json", R"({"zarr_format": 3, "node_type": "group", "attributes": []})",
     "attributes is an array"},
    {"zarr.json", R"({"zarr_format": 3, "node_type": "group", "x": {"must_understand": true}})",
     "unknown member 'x'"},
    {"zarr.json", R"({"zarr_format": 3, "node_type": "group", "x": 1})", "unknown member 'x'"},
    {"zarr.json",
     R"({"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": "inline", "metadata": {"a": {"node_type": "array"}}}})",
     ""},
    {"zarr.json", R"({"zarr_format": 3, "consolidated_metadata": 1})",
     "consolidated_metadata is a number"},
    {"zarr.json", R"({"zarr_format": 3, "consolidated_metadata": {"metadata": {}}})",
     "is not of the kind"},
    {"zarr.json", R"({"zarr_format": 3, "consolidated_metadata": {"kind": "inline"}})",
     "has no 'metadata'"},
    {"zarr.json",
     R"({"zarr_format": 3, "consolidated_metadata": {"kind": "inline", "metadata": {"a": {}}}})",
     "'a' of the consolidated metadata"},
};

TEST(GroupMetadata, Faults) {
  for (const Row& row : kRows) {
    const std::string fault = find_group_fault(row.name, row.json).value_or("");
    EXPECT_EQ(fault.empty(), *row.fault == '\0') << row.json << ": " << fault;
    EXPECT_THAT(fault, ::testing::HasSubstr(row.fault)) << row.json;
  }
}

TEST(GroupMetadata, TextThatIsNotJson) {
  for (const char* name : {".zgroup", ".zattrs", ".zmetadata", "zarr.json"})
    for (const char* text : {"", " ", "{", "{}x", "{} {}", "{'a': 1}", "{\"a\": \"\xff\"}"})
      EXPECT_THAT([&] { (void)find_group_fault(name, text); }, FailsWith(Code::kDataLoss, ""))
          << text;
}

TEST(GroupMetadata, Names) {
  for (const char* name : {".zgroup", ".zattrs", ".zmetadata", "zarr.json"})
    EXPECT_TRUE(is_group_document(name));
  for (const char* name : {"", ".zarray", "zarr", "c"}) EXPECT_FALSE(is_group_document(name));
}

}  // namespace
}  // namespace cairn::zarr
