// checkpoint_state_test.cc -- the file that names the latest checkpoint, in every spelling of the
// text format, and what is none.
#include <cairn/formats/tensorflow/index/checkpoint_state.h>
#include <cairn/io/file.h>
#include <gmock/gmock.h>

#include <limits>

#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::TempDir;

CheckpointState parse(std::string_view text) { return parse_checkpoint_state(text).value(); }

TEST(CheckpointState, WritesWhatTensorFlowWrites) {
  EXPECT_EQ(encode_checkpoint_state({"ckpt-30", {"ckpt-20", "ckpt-30"}, {1795203500.686128, 5}, 3}),
            "model_checkpoint_path: \"ckpt-30\"\nall_model_checkpoint_paths: "
            "\"ckpt-20\"\nall_model_checkpoint_paths: \"ckpt-30\"\n"
            "all_model_checkpoint_timestamps: 1795203500.686128\nall_model_checkpoint_timestamps: "
            "5.0\nlast_preserved_timestamp: 3.0\n");
  EXPECT_EQ(encode_checkpoint_state({"a\t\n\r\"'\\\x01\x7f\u00fc\U0001f600?", {}, {}, 0}),
            "model_checkpoint_path: \"a\\t\\n\\r\\\"\\'\\\\\\001\\177\u00fc\U0001f600?\"\n");
  EXPECT_EQ(encode_checkpoint_state(
                {"", {"b"}, {1e300, 1e-7, 1e16, -0.0, std::numeric_limits<double>::infinity()}, 0}),
            "all_model_checkpoint_paths: \"b\"\nall_model_checkpoint_timestamps: "
            "1e+300\nall_model_checkpoint_timestamps: 1e-07\n"
            "all_model_checkpoint_timestamps: 1e+16\nall_model_checkpoint_timestamps: "
            "-0.0\nall_model_checkpoint_timestamps: inf\n");
  EXPECT_THAT(
      [] {
        encode_checkpoint_state({"\xff", {}, {}, 0});
      },
      FailsWith(Code::kInvalidArgument, "not UTF-8"));
}

TEST(CheckpointState, ReadsWhatItWrites) {
  CheckpointState state{
      "a\t\n\r\"'\\\x01\x7f\u00fc\U0001f600?", {"", "b", "c d"}, {0, -1.5, 1e300}, 7.25};
  EXPECT_EQ(parse(encode_checkpoint_state(state)), state);
  EXPECT_EQ(parse(""), CheckpointState());
}

TEST(CheckpointState, ReadsEverySpelling) {
  EXPECT_EQ(parse("model_checkpoint_path: \"a\" model_checkpoint_path: 'b' # the last one counts\n")
                .model_checkpoint_path,
            "b");
  EXPECT_EQ(parse("#only a comment").model_checkpoint_path, "");
  EXPECT_EQ(parse(R"(model_checkpoint_path : "\u00e9\U0001f600\101\x41\7\'\?" "more"'and more')")
                .model_checkpoint_path,
            "\u00e9\U0001f600AA\a'?moreand more");
  EXPECT_EQ(parse("model_checkpoint_path: \"\u00e9\"").model_checkpoint_path, "\u00e9");
  EXPECT_THAT(
      parse("all_model_checkpoint_paths: ['a', 'b' \"c\"], all_model_checkpoint_paths: 'd';")
          .all_model_checkpoint_paths,
      ElementsAre("a", "bc", "d"));
  EXPECT_THAT(parse("all_model_checkpoint_timestamps: [1f, .5, 5., -inf, 1e3, 7, 1e999, -1e-999]")
                  .all_model_checkpoint_timestamps,
              ElementsAre(1, .5, 5, -std::numeric_limits<double>::infinity(), 1000, 7,
                          std::numeric_limits<double>::infinity(), 0));
  EXPECT_THAT(parse("all_model_checkpoint_paths: []").all_model_checkpoint_paths, ElementsAre());
}

TEST(CheckpointState, PassesOverUnknownFields) {
  const CheckpointState state = parse(
      "other: 1 another { model_checkpoint_path: \"not this\" [a.b/c] < x: [1, {y: 2}, <>] > } "
      "enum_field: VALUE; texts: ['a', \"b\"]\n"
      "model_checkpoint_path: 'this' nested: { all_model_checkpoint_paths: 5 }");
  EXPECT_EQ(state, (CheckpointState{"this", {}, {}, 0}));
}

TEST(CheckpointState, RefusesWhatIsNone) {
  const std::vector<std::pair<std::string, const char*>> table = {
      {"model_checkpoint_path: \"a", "line 1: a string is not terminated"},
      {"\n\nmodel_checkpoint_path: \"a\nb\"", "line 3: a string is not terminated"},
      {"model_checkpoint_path: \"a\\", "escape"},
      {"model_checkpoint_path: \"\\q\"", "unknown escape"},
      {"model_checkpoint_path: \"\\x\"", "lacks its digits"},
      {"model_checkpoint_path: \"\\u12\"", "lacks its digits"},
      {"model_checkpoint_path: \"\\U0011ffff\"", "not a valid character"},
      {"model_checkpoint_path: \"\\ud800\"", "not a valid character"},
      {"model_checkpoint_path: \"\\400\"", "larger than a byte"},
      {"model_checkpoint_path: \"\\377\"", "not UTF-8"},
      {"model_checkpoint_path: \"\xff\"", "not UTF-8"},
      {"model_checkpoint_path \"a\"", "expected ':'"},
      {"model_checkpoint_path: a", "expected a quoted string"},
      {"model_checkpoint_path: [\"a\"]", "expected a quoted string"},
      {"model_checkpoint_path {}", "expected ':'"},
      {"model_checkpoint_path:", "expected a quoted string"},
      {"all_model_checkpoint_paths: [\"a\" ", "expected ','"},
      {"all_model_checkpoint_paths: [\"a\",", "expected a quoted string"},
      {"last_preserved_timestamp: 0x10", "not a number"},
      {"last_preserved_timestamp: - 3", "not a number"},
      {"last_preserved_timestamp: \"3\"", "expected a number"},
      {"model_checkpoint_path: \"a\";;", "expected the name of a field"},
      {"{", "expected the name of a field"},
      {std::string(1, '\0'), "expected the name of a field"},
      {"other", "expected ':'"},
      {"other 5", "expected ':'"},
      {"other {", "expected the name of a field"},
      {"other { a: 1 >", "expected the name of a field"},
      {"[a.b", "expected ']'"},
      {"a: [" + std::string(200, '['), "nested more than"},
  };
  for (const auto& [text, expect] : table) {
    const auto parsed = parse_checkpoint_state(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code(), Code::kDataLoss) << text;
    EXPECT_THAT(parsed.error().message(), ::testing::HasSubstr(expect)) << text;
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "a{";
  EXPECT_THAT(parse_checkpoint_state(deep).error().message(),
              ::testing::HasSubstr("nested more than"));
}

TEST(CheckpointState, SurvivesDamage) {
  const std::string good =
      "model_checkpoint_path: \"a\\u00e9\\x41\\101\"\nall_model_checkpoint_paths: ['x', 'y'] other "
      "{ z: <> }\n";
  const auto try_it = [](ByteView bad, const std::string&) {
    const auto parsed = parse_checkpoint_state(as_text(bad));
    EXPECT_TRUE(parsed.ok() || parsed.error().code() == Code::kDataLoss);
  };
  testing::for_each_truncation(as_bytes(good), try_it);
  testing::for_each_bit_flip(as_bytes(good), try_it);
}

TEST(CheckpointState, IsAFile) {
  const TempDir dir;
  EXPECT_EQ(read_checkpoint_state(FileTree(), dir / "checkpoint").error().code(), Code::kNotFound);
  write_checkpoint_state(dir / "checkpoint", {"a", {"a"}, {}, 0});
  write_checkpoint_state(dir / "checkpoint", {"b", {"a", "b"}, {}, 0});
  EXPECT_EQ(read_checkpoint_state(FileTree(), dir / "checkpoint").value(),
            (CheckpointState{"b", {"a", "b"}, {}, 0}));
  testing::put_file(dir / "checkpoint", "{\"json\": true}");
  EXPECT_THAT(read_checkpoint_state(FileTree(), dir / "checkpoint").error().message(),
              ::testing::HasSubstr("checkpoint: is not a checkpoint state file"));
}

TEST(CheckpointState, KnowsTheLatest) {
  CheckpointState state = with_latest({}, "a", 1);
  EXPECT_EQ(state, (CheckpointState{"a", {"a"}, {}, 0}));
  state = with_latest(with_latest(state, "b", 2), "a", 3);
  EXPECT_EQ(state, (CheckpointState{"a", {"b", "a"}, {}, 0}));
  EXPECT_EQ(with_latest({"b", {"a", "b"}, {1, 2}, 5}, "a", 3),
            (CheckpointState{"a", {"b", "a"}, {2, 3}, 5}));
  EXPECT_EQ(with_latest({"b", {"a", "b"}, {1}, 0}, "c", 3),
            (CheckpointState{"c", {"a", "b", "c"}, {}, 0}));
  EXPECT_EQ(resolve_checkpoint_path("/x", "a/b"), "/x/a/b");
  EXPECT_EQ(resolve_checkpoint_path("x/", "a"), "x/a");
  EXPECT_EQ(resolve_checkpoint_path("/x", "/y/a"), "/y/a");
  EXPECT_EQ(resolve_checkpoint_path("", "a"), "a");
}

}  // namespace
}  // namespace cairn
