// metadata_test.cc -- the small JSON files: what Orbax writes, older spellings, and tables of
// damaged ones.
#include <cairn/base/text/time_text.h>
#include <cairn/orbax/layout/metadata.h>
#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Each text must be refused as damaged with these words.
template <class Parse>
void expect_damaged(Parse parse, const std::vector<std::pair<std::string, const char*>>& table) {
  for (const auto& [text, words] : table) {
    const std::string expect = words;
    SCOPED_TRACE(text.substr(0, 100));
    const auto call = [&, &bad = text] { parse(bad); };
    EXPECT_THAT(call, FailsWith(Code::kDataLoss, expect));
  }
}

TEST(CheckpointMetadata, ReadsWhatOrbaxWrites) {
  const auto m = parse_checkpoint_metadata(
      R"({"item_handlers": {"default": "x.StandardCheckpointHandler", "metrics": null}, "metrics": {"acc": 1}, "performance_metrics": {}, "init_timestamp_nsecs": 1795201916934160904, "commit_timestamp_nsecs": 1795201916980150000, "custom_metadata": {"lr": 1}, "new": 1})");
  ASSERT_EQ(m.item_handlers.size(), 2U);
  EXPECT_EQ(m.item_handlers[0],
            (std::pair<std::string, std::string>("default", "x.StandardCheckpointHandler")));
  EXPECT_EQ(m.init_time_ns, 1795201916934160904);
  EXPECT_EQ(m.commit_time_ns, 1795201916980150000);
  EXPECT_EQ(to_text(m.metrics), R"({"acc":1})");
  EXPECT_EQ(to_text(m.custom_metadata), R"({"lr":1})");
}

TEST(CheckpointMetadata, AbsentMembersAndNullsAreFine) {
  const auto m = parse_checkpoint_metadata(
      R"({"item_handlers": "direct.Handler", "commit_timestamp_nsecs": null})");
  ASSERT_EQ(m.item_handlers.size(), 1U);
  EXPECT_EQ(m.item_handlers[0].first, "");
  EXPECT_EQ(m.init_time_ns, std::nullopt);
  EXPECT_TRUE(parse_checkpoint_metadata("{}").item_handlers.empty());
}

TEST(CheckpointMetadata, Damaged) {
  expect_damaged([](const std::string& text) { (void)parse_checkpoint_metadata(text); },
                 {{"", "JSON"},
                  {"[]", "expected an object"},
                  {R"({"item_handlers": 3})", "'item_handlers' is"},
                  {R"({"item_handlers": {"a": 3}})", "the handler of item 'a'"},
                  {R"({"init_timestamp_nsecs": "now"})", "'init_timestamp_nsecs' is"},
                  {R"({"commit_timestamp_nsecs": 1.5})", "not an integer"},
                  {R"({"commit_timestamp_nsecs": 2.0})", "not an integer"},  // as Orbax
                  {R"({"custom_metadata": 3})", "'custom_metadata' is"},
                  {R"({"metrics": []})", "'metrics' is"},
                  {std::string(1000, '['), ""}});
}

TEST(RootMetadata, NewAndLegacySpelling) {
  EXPECT_EQ(to_text(parse_root_metadata(
                R"({"internal_metadata": {}, "custom_metadata": {"lang": "en"}})")),
            R"({"lang":"en"})");
  EXPECT_EQ(to_text(parse_root_metadata(R"({"lang": "en"})")), R"({"lang":"en"})");
  EXPECT_TRUE(parse_root_metadata(R"({"custom_metadata": null})").is_null());
  EXPECT_EQ(to_text(parse_root_metadata(R"({"custom_metadata": {}, "a": 1, "b": null})")),
            R"({"a":1,"b":null})");
}

TEST(RootMetadata, Damaged) {
  expect_damaged([](const std::string& text) { (void)parse_root_metadata(text); },
                 {{"", ""},
                  {"3", "expected an object"},
                  {"null", "expected an object"},
                  {R"({"internal_metadata": []})", "'internal_metadata' is"},
                  {R"({"custom_metadata": [1]})", "'custom_metadata' is"},
                  {R"({"custom_metadata": {"a": 1}, "b": 2})", "unknown member 'b'"},
                  {R"({"custom_metadata": {"a": 1}}x)", ""}});
}

TEST(ArrayMetadatas, ReadsWhatOrbaxWrites) {
  const auto arrays = parse_array_metadatas(
      R"({"array_metadatas": [{"array_metadata": {"param_name": "a", "write_shape": [1, 4], "chunk_shape": [1, 2], "ext_metadata": null}}, {"array_metadata": {"param_name": "key", "write_shape": [], "chunk_shape": [2], "ext_metadata": {"random_key_impl": "threefry2x32", "more": 1}}, "later": 2}], "x": []})");
  ASSERT_EQ(arrays.size(), 2U);
  EXPECT_EQ(arrays[0], (StoredArrayMetadata{"a", {1, 4}, {1, 2}, ""}));
  EXPECT_EQ(arrays[1], (StoredArrayMetadata{"key", {}, {2}, "threefry2x32"}));
}

TEST(ArrayMetadatas, Damaged) {
  expect_damaged(
      [](const std::string& text) { (void)parse_array_metadatas(text); },
      {{"{}", "no 'array_metadatas'"},
       {R"({"array_metadatas": {}})", "expected an array"},
       {R"({"array_metadatas": [3]})", "expected an object"},
       {R"({"array_metadatas": [{"array_metadata": {}}]})", "without 'param_name'"},
       {R"({"array_metadatas": [{"array_metadata": {"param_name": "a", "write_shape": [-1]}}]})",
        "a negative extent"},
       {R"({"array_metadatas": [{"array_metadata": {"param_name": "a", "ext_metadata": {"random_key_impl": 1}}}]})",
        "a string"},
       {R"({"array_metadatas": []} x)", "unexpected text"},
       {R"({"array_metadatas": [{"array_metadata": {"param_name": "a", "write_shape": [)" +
            std::string(300, '1') + "]",
        "expected a 64-bit integer"}});
}

TEST(Shardings, NamesAreBase64) {
  const auto shardings = parse_shardings(
      R"({"YQ==":"{\"sharding_type\": 1}","":"bare","w7zmvKI_Lw==":"x","a2V5":"y"})");
  EXPECT_THAT(shardings, ElementsAre(Pair("a", "{\"sharding_type\": 1}"), Pair("", "bare"),
                                     Pair("\xc3\xbc\xe6\xbc\xa2?/", "x"), Pair("key", "y")));
}

TEST(Shardings, Damaged) {
  expect_damaged([](const std::string& text) { (void)parse_shardings(text); },
                 {{"[]", "expected an object"},
                  {R"({"YQ==": {}})", "expected a string"},
                  {R"({"YQ=": "x"})", "not a multiple of 4"},
                  {R"({"Y+==": "x"})", "not URL-safe base64"},
                  {R"({"====": "x"})", "not URL-safe base64"}});
}

TEST(Strings, PointerRules) {
  const auto strings = parse_strings(
      R"({"a":"\"q\"","s":{"t":"nested","u":{"":"deep"}},"x~1y":"z","n":1.50,"t":true,"f":false,"0":null,"l":[1, 2]})");
  EXPECT_EQ(strings.at("a"), "\"q\"");
  EXPECT_EQ(strings.at("s/t"), "nested");
  EXPECT_EQ(strings.at("s/u/"), "deep");
  // The member "x~1y" is reached by the pointer "/x~01y", which is what a parameter of that name
  // would be stored under.
  EXPECT_EQ(strings.at("x~01y"), "z");
  EXPECT_EQ(strings.at("n"), "1.5");  // as Python shows it
  EXPECT_EQ(strings.at("t"), "True");
  EXPECT_EQ(strings.at("f"), "False");
  EXPECT_EQ(strings.at("0"), "None");
  EXPECT_EQ(strings.at("l"), "[1, 2]");
  EXPECT_EQ(strings.size(), 9U);
  EXPECT_EQ(parse_strings(R"({"a":"first","a":"last"})").at("a"), "last");
  EXPECT_EQ(parse_strings("\xef\xbb\xbf { \"a\" : \"\xc3\xbc\" } ").at("a"), "\xc3\xbc");
}

TEST(Strings, Damaged) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  expect_damaged([](const std::string& text) { (void)parse_strings(text); },
                 {{"", "unexpected end"},
                  {"\"x\"", "expected an object"},
                  {R"({"a":"b"}x)", "unexpected text"},
                  {R"({"a":"b)", "unexpected end"},
                  {"{\"a\":\"\xff\"}", "UTF-8"},
                  {deep, "levels deep"}});
}

TEST(TimeText, IsReadable) {
  EXPECT_EQ(time_text(0), "1970-01-01 00:00:00.000 UTC");
  EXPECT_EQ(time_text(1795201916934160904), "2026-11-20 19:11:56.934 UTC");
  EXPECT_EQ(time_text(-1), "1969-12-31 23:59:59.999 UTC");
  for (const auto t : {INT64_MIN, INT64_MAX}) EXPECT_THAT(time_text(t), HasSubstr("UTC"));
}

}  // namespace
}  // namespace cairn::orbax
