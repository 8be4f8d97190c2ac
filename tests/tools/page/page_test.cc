// The data of a page: texts, modules, shards, and what a page does with damage and steps.
#include <cairn/diff.h>
#include <cairn/inspect.h>
#include <cairn/tools/page/modules.h>
#include <cairn/tools/page/page_parts.h>
#include <cairn/tools/page/page_text.h>
#include <cairn/tools/page/reports.h>
#include <cairn/tools/page/rows.h>
#include <cairn/tools/page/shard_parts.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using page::escape_for_html;
using page::ModuleList;
using page::rounded;
using page::Rows;
using page::ShardParts;
using page::shown_text;
using testing::FailsWith;
using testing::make_array;
using testing::MemoryCheckpoint;

Array floats(std::int64_t count, float value = 1) {
  return make_array(DType::kFloat32, {count},
                    std::vector<float>(static_cast<std::size_t>(count), value));
}

std::vector<std::size_t> all_of(const Checkpoint& checkpoint) {
  std::vector<std::size_t> indices(checkpoint.tensors().size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

Usage usage_of(const Checkpoint& checkpoint) {
  return usage(checkpoint, all_of(checkpoint), SIZE_MAX);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(PageText, HasNothingThatMeansSomethingInHtml) {
  const std::string hostile =
      "</script><!--&amp;\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xa7 \"' \xf0\x9f\x98\x80";
  const std::string json = to_text(Json(hostile));
  const std::string escaped = escape_for_html(json);
  for (const char* part : {"<", ">", "&", "\xe2\x80\xa8", "\xe2\x80\xa9"})
    EXPECT_EQ(escaped.find(part), std::string::npos) << part;
  EXPECT_NE(escaped.find("\xe2\x80\xa7"), std::string::npos) << "a neighbour of U+2028 stays";
  EXPECT_EQ(escape_for_html("\xe2\x80"), "\xe2\x80") << "a text that ends within a character";
  const std::string valid = "</a>&\xe2\x80\xa8\xe2\x80\xa9\xf0\x9f\x98\x80";
  EXPECT_EQ(parse_json(escape_for_html(to_text(Json(valid)))), Json(valid));
}

TEST(PageText, IsCutBetweenCharacters) {
  EXPECT_EQ(shown_text("a\x1b[2J\xff"), Json("a\\x1b[2J\\xff"));
  EXPECT_EQ(shown_text(std::string(500, 'a')), Json(std::string(500, 'a')));
  EXPECT_EQ(shown_text(std::string(501, 'a')),
            Json(std::string(500, 'a') + "... (a text of 501 bytes)"));
  for (std::size_t before = 0; before < 4; ++before) {
    std::string text(before, 'a');
    for (int i = 0; i < 1000; ++i) text += "\xf0\x9f\x98\x80";
    const std::string shown = *shown_text(text).as_string();
    EXPECT_NO_THROW((void)parse_json(to_text(Json(shown)))) << before;
    EXPECT_LT(shown.size(), 540U);
  }
}

TEST(PageText, RoundsToFiveDigits) {
  EXPECT_EQ(rounded(1.0 / 3), Json(0.33333));
  EXPECT_EQ(rounded(-123456789.0), Json(std::int64_t{-123456789}));
  EXPECT_EQ(rounded(0.0), Json(std::int64_t{0}));
  EXPECT_EQ(rounded(1e300), Json(1e300));
  EXPECT_EQ(rounded(5e-324), Json(4.9407e-324));
  for (const auto& none : {std::optional<double>(), std::optional<double>(NAN),
                           std::optional<double>(std::numeric_limits<double>::infinity())})
    EXPECT_EQ(rounded(none), Json());
}

TEST(PageModules, AreNumberedFromTheRoot) {
  MemoryCheckpoint checkpoint;
  for (const char* name : {"a.x.w", "a.x.b", "a.y", "b.z.w", "c"}) checkpoint.add(name, floats(4));
  const Usage sums = usage_of(checkpoint);
  const ModuleList modules(sums);
  const Json json = modules.json();
  const auto names = *json.find("name")->as_array();
  const auto parents = *json.find("parent")->as_array();
  ASSERT_EQ(names.size(), parents.size());
  std::map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < names.size(); ++i) {
    numbers[*names[i].as_string()] = i;
    if (i > 0) {
      EXPECT_LT(*parents[i].as_uint64(), i);
    }
  }
  EXPECT_EQ(numbers.size(), 5U) << "the root, a, x, b, z; not the leaves";
  const TensorList leaves = checkpoint.tensors();
  EXPECT_EQ(modules.module_of(leaves[0]), numbers["x"]);
  EXPECT_EQ(modules.module_of(leaves[2]), numbers["a"]);
  EXPECT_EQ(modules.module_of(leaves[3]), numbers["z"]);
  EXPECT_EQ(modules.module_of(leaves[4]), 0U);
}

TEST(PageModules, AreBounded) {
  MemoryCheckpoint checkpoint;
  for (int i = 0; i < 5000; ++i)
    for (const char* leaf : {".w", ".b"})
      checkpoint.add("top.m" + std::to_string(i) + leaf, floats(1));
  const Usage sums = usage_of(checkpoint);
  const ModuleList modules(sums);
  EXPECT_EQ(modules.json().find("name")->as_array()->size(), 2U);
  EXPECT_EQ(modules.module_of(checkpoint.tensors()[0]), 1U);
}

TEST(PageShards, AreTheAxesOfTheMesh) {
  const std::string json = *sharding_json(
      Sharding(NamedSharding{make_mesh({4, 2}, {"data", "model"}), {{"data"}, {}, {"model"}}}));
  const ShardParts parts(json);
  EXPECT_EQ(parts.of(Shape{8, 3, 4}), (Shape{4, 1, 2}));
  EXPECT_EQ(parts.of(Shape{8, 3, 3}), std::nullopt) << "the axis does not divide the extent";
  EXPECT_EQ(parts.of(Shape{8, 3}), std::nullopt) << "the spec is longer than the rank";
  EXPECT_EQ(parts.of(Shape{0, 3, 4}), (Shape{4, 1, 2}));
  const ShardParts both(*sharding_json(
      Sharding(NamedSharding{make_mesh({4, 2}, {"data", "model"}), {{"data", "model"}}})));
  EXPECT_EQ(both.of(Shape{16}), (Shape{8}));
  for (const char* bad : {"", "{", "{}", "[]", "null",
                          R"({"sharding_type": "NamedSharding", "shape": [2], "axis_names": [],
                              "partition_spec": [["x"]]})"})
    EXPECT_EQ(ShardParts(bad).of(Shape{8}), std::nullopt) << bad;
}

TEST(PageRows, AreFoundByName) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("w", floats(2)).item = "params";
  checkpoint.add("w", floats(2)).item = "opt";
  checkpoint.add("b", floats(2)).item = "opt";
  const Rows rows(checkpoint.tensors(), all_of(checkpoint));
  EXPECT_EQ(rows.find("opt/w"), 1U);
  EXPECT_EQ(rows.find("w"), 0U);
  EXPECT_EQ(rows.find("b"), 2U);
  EXPECT_EQ(rows.find("x"), std::nullopt);
}

TEST(PageReports, AreBoundedAndTheWorstComesFirst) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("w", floats(2));
  const Rows rows(checkpoint.tensors(), all_of(checkpoint));
  VerifyReport report;
  for (int i = 0; i < 600; ++i) report.findings.push_back({Severity::kNote, "", "file", 0, "note"});
  report.findings.push_back({Severity::kDamage, "w", "file", 7, "damage"});
  report.unprotected = {"w", "not there"};
  const Json json = page::integrity_json(report, rows);
  const JsonArray& findings = *json.find("findings")->as_array();
  EXPECT_EQ(findings.size(), 500U);
  EXPECT_EQ(*findings[0].find("severity")->as_string(), "damage");
  EXPECT_EQ(findings[0].find("row")->as_int64(), 0);
  EXPECT_EQ(findings[1].find("row")->as_int64(), -1);
  EXPECT_EQ(json.find("more")->as_int64(), 101);
  EXPECT_EQ(json.find("unprotected")->as_array()->size(), 1U);
  EXPECT_EQ(json.find("unprotected_count")->as_int64(), 2);
  EXPECT_EQ(*json.find("verdict")->as_string(), "damaged");
}

TEST(Page, IsWrittenOnceAndHasOneOfEachPart) {
  const testing::TempDir folder;
  const std::string path = folder.path() + "/page.html";
  MemoryCheckpoint checkpoint;
  checkpoint.add("a.w", floats(8));
  const HtmlReport report = write_html_report(checkpoint, path, {});
  const std::string text = content_of(path);
  EXPECT_EQ(report.bytes, text.size());
  EXPECT_EQ(report.tensors, 1U);
  EXPECT_EQ(text.find("{{"), std::string::npos);
  EXPECT_NE(text.find(page::style()), std::string::npos);
  EXPECT_NE(text.find(page::script()), std::string::npos);
  EXPECT_NE(text.find(page::script_hash()), std::string::npos);
  EXPECT_THAT([&] { write_html_report(checkpoint, path, {}); },
              FailsWith(Code::kAlreadyExists, path));
  write_html_report(checkpoint, path, {.if_exists = IfExists::kReplace});
  EXPECT_EQ(content_of(path), text);
}

TEST(Page, IsNotWrittenAfterARequestToStop) {
  const testing::TempDir folder;
  const std::string path = folder.path() + "/page.html";
  MemoryCheckpoint checkpoint;
  checkpoint.add("w", floats(8));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT([&] { write_html_report(checkpoint, path, {.cancel = stop.get_token()}); },
              FailsWith(Code::kCancelled, ""));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Page, ReportsProgressThatOnlyGrows) {
  const testing::TempDir folder;
  MemoryCheckpoint checkpoint;
  for (int i = 0; i < 10; ++i) checkpoint.add("w" + std::to_string(i), floats(100));
  auto other = std::make_shared<MemoryCheckpoint>();
  other->add("w0", floats(100, 2));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> calls;
  const HtmlReport report =
      write_html_report(checkpoint, folder.path() + "/page.html",
                        {.other = other, .progress = [&](std::uint64_t done, std::uint64_t total) {
                           calls.emplace_back(done, total);
                         }});
  EXPECT_EQ(report.different, 10U);
  ASSERT_FALSE(calls.empty());
  EXPECT_TRUE(std::is_sorted(calls.begin(), calls.end()));
  EXPECT_EQ(calls.back().first, calls.back().second);
}

TEST(Page, KeepsWhatAppearsAtItsPathMeanwhile) {
  const testing::TempDir folder;
  const std::string path = folder.path() + "/page.html";
  MemoryCheckpoint checkpoint;
  checkpoint.add("w", floats(8));
  const auto write_mine = [&](std::uint64_t, std::uint64_t) { std::ofstream(path) << "mine"; };
  EXPECT_THAT([&] { write_html_report(checkpoint, path, {.progress = write_mine}); },
              FailsWith(Code::kAlreadyExists, path));
  EXPECT_EQ(content_of(path), "mine");
  // A link is not followed, also where a file may be replaced.
  const auto make_link = [&](std::uint64_t, std::uint64_t) {
    std::filesystem::remove(path);
    std::filesystem::create_symlink(folder.path() + "/other", path);
  };
  std::ofstream(folder.path() + "/other") << "theirs";
  EXPECT_THAT(
      [&] {
        write_html_report(checkpoint, path,
                          {.if_exists = IfExists::kReplace, .progress = make_link});
      },
      FailsWith(Code::kAlreadyExists, path));
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_EQ(content_of(folder.path() + "/other"), "theirs");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(Page, WrongRequestsAreRefusedBeforeAnythingIsRead) {
  const testing::TempDir folder;
  const std::string path = folder.path() + "/page.html";
  MemoryCheckpoint checkpoint;
  checkpoint.add("w", floats(8));
  EXPECT_THAT([&] { write_html_report(checkpoint, path, {.include = {"x"}}); },
              FailsWith(Code::kInvalidArgument, "no tensor matches"));
  EXPECT_THAT([&] { write_html_report(checkpoint, path, {.steps = 101}); },
              FailsWith(Code::kInvalidArgument, "101 steps"));
  EXPECT_THAT(
      [&] {
        write_html_report(checkpoint, path, {.opened_path = folder.path() + "/no", .steps = 1});
      },
      FailsWith(Code::kNotFound, "/no"));
  EXPECT_THAT([&] { write_html_report(checkpoint, folder.path(), {}); },
              FailsWith(Code::kAlreadyExists, folder.path()));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace cairn
