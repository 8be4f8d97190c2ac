// model_map_test.cc -- rules with two sides: what they make, the way back, and what they refuse.
#include <cairn/cairn.h>
#include <cairn/tools/model_map/model_map.h>
#include <gmock/gmock.h>

#include <fstream>
#include <numeric>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::make_array;
using testing::MemoryCheckpoint;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

using Source = std::shared_ptr<MemoryCheckpoint>;

std::vector<float> counting_from(std::size_t n, float from) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), from);
  return values;
}

Source checkpoint(const std::vector<std::pair<std::string, Shape>>& leaves) {
  auto made = std::make_shared<MemoryCheckpoint>();
  float from = 1;
  for (const auto& [name, shape] : leaves) {
    const auto n = static_cast<std::size_t>(element_count(shape));
    made->add(name, make_array(DType::kFloat32, shape, counting_from(n, from)));
    from += static_cast<float>(n);
  }
  return made;
}

std::string rules(const std::string& list, const std::string& more = "") {
  return R"({"sides": ["a", "b"], )" + more + R"("rules": [)" + list + "]}";
}

std::vector<std::string> names(const Checkpoint& checkpoint) {
  std::vector<std::string> out;
  for (const auto& tensor : checkpoint.tensors())
    out.push_back(tensor.name + shape_text(tensor.shape));
  return out;
}

std::vector<float> floats(const Checkpoint& checkpoint, const std::string& name) {
  const Array array = checkpoint.read(name);
  const auto* begin = reinterpret_cast<const float*>(array.bytes().data());
  return {begin, begin + element_count(array.shape())};
}

// Applies rules, and back. The leaves must be what they were.
std::shared_ptr<const Checkpoint> there_and_back(const Source& source, const std::string& text,
                                                 TransformOptions options = {}) {
  std::shared_ptr<const Checkpoint> made = transform_checkpoint(source, text, options).checkpoint;
  options.reverse = true;
  const auto back = transform_checkpoint(made, text, options).checkpoint;
  EXPECT_THAT(names(*back), UnorderedElementsAreArray(names(*source)));
  for (const auto& tensor : source->tensors())
    EXPECT_EQ(floats(*back, tensor.name), floats(*source, tensor.name)) << tensor.name;
  return made;
}

TEST(ModelMap, StacksTwoIndicesAndBack) {
  const Source source = checkpoint({{"e.0.l.0", {2, 3}},
                                    {"e.0.l.1", {2, 3}},
                                    {"e.1.l.0", {2, 3}},
                                    {"e.1.l.1", {2, 3}},
                                    {"e.2.l.0", {2, 3}},
                                    {"e.2.l.1", {2, 3}}});
  const auto made = there_and_back(
      source, rules(R"({"a": "e/{x}/l/{i}", "b": "w", "do": [{"rearrange": "m e -> e m"},
                        {"stack": {"x": 0, "i": 2}}]})"));
  ASSERT_THAT(names(*made), ElementsAre("w(3, 3, 2, 2)"));
  const std::vector<float> w = floats(*made, "w");
  // w[x][e][i][m] = e.x.l.i[m][e]
  for (std::size_t x = 0; x < 3; ++x)
    for (std::size_t e = 0; e < 3; ++e)
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t m = 0; m < 2; ++m)
          EXPECT_EQ(w[((x * 3 + e) * 2 + i) * 2 + m],
                    static_cast<float>(1 + 12 * x + 6 * i + 3 * m + e));
}

TEST(ModelMap, KnowsIndicesThatStartLaterAndStep) {
  const Source source = checkpoint(
      {{"l.0", {2}}, {"l.1", {2}}, {"l.2", {2}}, {"l.3", {2}}, {"l.4", {2}}, {"l.5", {2}}});
  const auto made = there_and_back(
      source, rules(R"({"a": "l/{2*j+s+1}", "b": "{half[s]}", "do": {"stack": {"j": 1}}},
                       {"a": "l/{5+r}", "b": "rest/{r}"}, {"a": "l/0", "b": "first"})",
                    R"("let": {"half": "['even', 'odd']", "N": 6}, "for": {"j": "(N - 2) // 2",
                       "s": 2, "r": 1},)"));
  EXPECT_THAT(names(*made),
              UnorderedElementsAre("even(2, 2)", "odd(2, 2)", "rest.0(2,)", "first(2,)"));
  EXPECT_THAT(floats(*made, "odd"), ElementsAre(5, 9, 6, 10));
}

TEST(ModelMap, CutsAndJoinsLists) {
  const Source source = checkpoint({{"qkv", {8, 3}}, {"gate_up", {2, 6}}, {"k", {2}}, {"v", {2}}});
  const auto made = there_and_back(source, rules(R"({"a": "qkv", "b": ["q", "kv/0", "kv/1"],
                "do": {"split": 0, "sizes": ["2 * K", "K", "K"]}},
               {"a": "gate_up", "b": ["gate", "up"],
                "do": [{"rearrange": "x (m c) -> c x m", "c": 2}, {"unstack": 0}]},
               {"a": ["k", "v"], "b": "both", "do": {"stack": -1}})",
                                                 R"("let": {"K": 2},)"));
  EXPECT_THAT(names(*made), UnorderedElementsAre("q(4, 3)", "kv.0(2, 3)", "kv.1(2, 3)",
                                                 "gate(2, 3)", "up(2, 3)", "both(2, 2)"));
  EXPECT_THAT(floats(*made, "up"), ElementsAre(26, 28, 30, 32, 34, 36));
  EXPECT_THAT(floats(*made, "both"), ElementsAre(37, 39, 38, 40));
}

TEST(ModelMap, CopiesAndComparesOnTheWayBack) {
  const Source source = checkpoint({{"table", {2, 2}}});
  const std::string text =
      rules(R"({"a": "table", "b": "t", "do": [{"copy": ["i"]}, {"stack": {"i": 1}}]})",
            R"("for": {"i": 3},)");
  const auto made = there_and_back(source, text);
  ASSERT_THAT(names(*made), ElementsAre("t(2, 3, 2)"));
  const Source other = checkpoint({{"t", {2, 3, 2}}});  // rows that differ
  const auto back = transform_checkpoint(other, text, {.reverse = true}).checkpoint;
  EXPECT_THAT([&] { (void)back->read("table"); },
              FailsWith(Code::kFailedPrecondition, "must be equal, but differ"));
}

TEST(ModelMap, TakesTiedLeavesThatAreEqual) {
  auto source = std::make_shared<MemoryCheckpoint>();
  source->add("embed", make_array(DType::kFloat32, {2}, counting_from(2, 0)));
  source->add("head", make_array(DType::kFloat32, {2}, counting_from(2, 0)));
  const std::string text = rules(R"({"a": "embed", "b": "e"}, {"a": "head", "same": "embed"})");
  const auto made = transform_checkpoint(source, text).checkpoint;
  ASSERT_THAT(names(*made), ElementsAre("e(2,)"));
  EXPECT_THAT(floats(*made, "e"), ElementsAre(0, 1));
  source->add("head", make_array(DType::kFloat32, {2}, counting_from(2, 5)));
  auto different = std::make_shared<MemoryCheckpoint>();
  different->add("embed", make_array(DType::kFloat32, {2}, counting_from(2, 0)));
  different->add("head", make_array(DType::kFloat32, {2}, counting_from(2, 5)));
  const auto bad = transform_checkpoint(different, text).checkpoint;
  EXPECT_THAT([&] { (void)bad->read("e"); },
              FailsWith(Code::kFailedPrecondition, "embed and head must be equal"));
}

TEST(ModelMap, ScalesOnceAndCountsWhatIsInexact) {
  auto source = std::make_shared<MemoryCheckpoint>();
  source->add("w", make_array(DType::kFloat32, {3}, std::vector<float>{0.1F, 1, 3}));
  const std::string text = rules(R"({"a": "w", "b": "v", "do": {"affine": {"scale": "1 / 3",
                                     "offset": 1}}})");
  const auto made = transform_checkpoint(source, text).checkpoint;
  EXPECT_THAT(floats(*made, "v"),
              ElementsAre(static_cast<float>(static_cast<double>(0.1F) * (1.0 / 3) + 1),
                          static_cast<float>(1.0 / 3 + 1), 2));
  testing::TempDir dir;
  const ConvertReport report =
      convert(*transform_checkpoint(source, text).checkpoint, dir / "x.npz", {});
  ASSERT_EQ(report.inexact.size(), 1U);
  EXPECT_EQ(report.inexact[0].elements, 3U);
  EXPECT_GE(report.inexact[0].inexact, 1U);
  EXPECT_LT(report.inexact[0].inexact, 3U);
}

TEST(ModelMap, PadsAndRefusesToTrim) {
  const Source source = checkpoint({{"w", {3, 2}}});
  const std::string text =
      rules(R"({"a": "w", "b": "v",
                "do": {"resize": {"axis": 0, "from": "V", "to": "P", "trim": "t"}}})",
            R"("options": {"t": {"default": false}}, "let": {"V": 3, "P": 5},)");
  const auto made = there_and_back(source, text);
  EXPECT_THAT(floats(*made, "v"), ElementsAre(1, 2, 3, 4, 5, 6, 0, 0, 0, 0));
  const Source full = checkpoint({{"v", {5, 2}}});
  const auto trimmed = [&](const char* allow) {
    return transform_checkpoint(full, text, {.reverse = true, .values = {{"t", allow}}}).checkpoint;
  };
  EXPECT_THAT([&] { (void)trimmed("false")->read("w"); },
              FailsWith(Code::kFailedPrecondition, "v: row 3 of axis 0 is not zero"));
  EXPECT_THAT(floats(*trimmed("true"), "w"), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(ModelMap, FillsAndDropsWhatOneSideHas) {
  const Source source = checkpoint({{"w", {2}}, {"mask.0", {1}}, {"mask.1", {1}}});
  const std::string text = rules(
      R"({"a": "w", "b": "v"}, {"a": "mask/{*rest}", "drop": true},
         {"b": "step", "fill": "N", "dims": [], "dtype": "int32"},
         {"b": "bias", "fill": 0.5, "dims": ["N"], "dtype": "float32"})",
      R"("let": {"N": 3},)");
  const Transformed made = transform_checkpoint(source, text);
  EXPECT_THAT(names(*made.checkpoint), ElementsAre("bias(3,)", "step()", "v(2,)"));
  EXPECT_THAT(floats(*made.checkpoint, "bias"), ElementsAre(0.5, 0.5, 0.5));
  EXPECT_THAT(made.report.unused, ElementsAre("mask.0", "mask.1"));
  const std::shared_ptr<const Checkpoint> there = transform_checkpoint(source, text).checkpoint;
  EXPECT_THAT(names(*transform_checkpoint(there, text, {.reverse = true}).checkpoint),
              ElementsAre("w(2,)"));
}

TEST(ModelMap, CarriesTextsOver) {
  const Source source =
      checkpoint({{"m.x.weight", {2, 3}}, {"m.y.z.weight", {3, 2}}, {"m.n", {1}}});
  const auto made =
      there_and_back(source, rules(R"({"a": "m/{*path}/weight", "b": "params/{*path}/kernel",
                        "do": {"rearrange": "o i -> i o"}}, {"a": "m/n", "b": "n"})"));
  EXPECT_THAT(names(*made),
              UnorderedElementsAre("params.x.kernel(3, 2)", "params.y.z.kernel(2, 3)", "n(1,)"));
}

TEST(ModelMap, FindsOutWhoseNamesTheSourceHas) {
  testing::TempDir dir;
  std::ofstream(dir / "map.json") << rules(
      R"({"a": "w/{i}", "b": "all", "do": {"stack": {"i": 0}}})");
  EXPECT_EQ(
      apply_model_map(checkpoint({{"w.0", {2}}, {"w.1", {2}}}), dir / "map.json").report.to_side,
      "b");
  EXPECT_EQ(apply_model_map(checkpoint({{"all", {2, 2}}}), dir / "map.json").report.to_side, "a");
  EXPECT_THAT(
      [&] {
        apply_model_map(checkpoint({{"x", {2}}}), dir / "map.json");
      },
      FailsWith(Code::kInvalidArgument, "no leaf of the checkpoint has a name"));
}

TEST(ModelMap, ReadsItsValuesFromTheConfiguration) {
  testing::TempDir dir;
  std::ofstream(dir / "config.json") << R"({"heads": 2})";
  const std::string text = rules(R"({"a": "w", "b": "v", "do": {"rearrange": "(H D) -> H D"}})",
                                 R"("let": {"H": "config.heads"},)");
  const auto made =
      transform_checkpoint(checkpoint({{"w", {6}}}), text, {.config = dir / "config.json"});
  EXPECT_THAT(names(*made.checkpoint), ElementsAre("v(2, 3)"));
  EXPECT_THAT(
      [&] {
        transform_checkpoint(checkpoint({{"w", {6}}}), text);
      },
      FailsWith(Code::kInvalidArgument, "without a config.json"));
  EXPECT_THAT(
      [&] {
        transform_checkpoint(checkpoint({{"w", {6}}}), text,
                             {.values = {{"H", "4"}}, .config = dir / "config.json"});
      },
      FailsWith(Code::kInvalidArgument, "cannot be divided by 4"));
}

TEST(ModelMap, NamesWhatIsMissingAndSurplus) {
  const auto error = [](const std::string& list, const std::string& more = "") {
    transform_checkpoint(checkpoint({{"l.0.w", {2}}, {"l.2.w", {2}}, {"other", {1}}, {"odd", {3}}}),
                         rules(list, more));
  };
  EXPECT_THAT(
      [&] { error(R"({"a": "l/{i}/w", "b": "w", "do": {"stack": {"i": 0}}})"); },
      FailsWith(Code::kInvalidArgument, "1 is missing: l/1/w; no rule takes 2: other, odd"));
  EXPECT_THAT([&] { error(R"({"a": "l/{i}/w", "b": "w/{i}"})", R"("for": {"i": 4},)"); },
              FailsWith(Code::kInvalidArgument, "2 are missing: l/1/w, l/3/w"));
  EXPECT_THAT([&] { error(R"({"a": "z", "b": "z"})", R"("unmentioned": "drop",)"); },
              FailsWith(Code::kInvalidArgument, "1 is missing: z"));
  EXPECT_NO_THROW(error(R"({"a": "z", "b": "z", "optional": true}, {"a": "q/{i}", "b": "q{i}"})",
                        R"("unmentioned": "keep", "for": {"i": 0},)"));
}

TEST(ModelMap, RefusesStepsThatDoNotFit) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"stack": {"i": 0}})", "the names that it takes have no 'i'"},
      {R"({"stack": 5})", "/rules/0: /do: w: axis 5 of an array of 3 dimensions"},
      {R"({"unstack": 0})", "axis 0 has 4 elements for 1 names"},
      {R"({"split": 0, "sizes": [1, 2]})", "cannot be split into parts of these sizes"},
      {R"({"concatenate": 0, "sizes": [5]})", "array 0 has 4 elements along axis 0, expected 5"},
      {R"({"shape": "a b c"})", "expected 3 dimensions"},
      {R"({"resize": {"axis": 0, "from": 5, "to": 6}})", "axis 0 has 4 elements, expected 5"},
      {R"({"affine": {"scale": 0}})", "a scale that is not 0"},
      {R"({"affine": {"scale": "none"}})", "is not a value"},
      {R"({"cast": {"back": "float16"}})", "'cast' cannot be inverted"},
      {R"({"copy": ["i"]})", "the count of 'i' is not known"},
  };
  for (const auto& c : cases)
    EXPECT_THAT(
        [&] {
          transform_checkpoint(
              checkpoint({{"w", {4, 2}}}),
              rules(std::string(R"({"a": "w", "b": "v", "do": )") + c.first + "}"));
        },
        FailsWith(Code::kInvalidArgument, c.second))
        << c.first;
}

TEST(ModelMap, RefusesFilesThatAreWrong) {
  const std::pair<std::string, const char*> cases[] = {
      {R"({"sides": ["a"], "rules": []})", "/sides: expected the names of two sides"},
      {R"({"sides": ["a", "do"], "rules": [{"a": "x", "b": "y"}]})", "choose another name"},
      {R"({"sides": ["a", "b"]})", "'rules' is missing"},
      {rules(R"({"c": "x"})"), "/rules/0: no names; expected 'a', 'b' or both"},
      {rules(R"({"a": "x"})"), "needs 'drop', 'fill' or 'same'"},
      {rules(R"({"a": "x", "b": "y", "to": 1})"), "/rules/0/to: unknown member"},
      {rules(R"({"a": "x{", "b": "y"})"), "/rules/0/a: 'x{': a '{' is not closed"},
      {rules(R"({"a": "x}", "b": "y"})"), "a '}' without"},
      {rules(R"({"a": "{1 +}", "b": "y"})"), "expected a value"},
      {rules(R"({"a": "x", "b": "y", "do": [{"turn": 1}]})"), "/rules/0/do/0: no operation"},
      {rules(R"({"a": "x", "b": "y", "do": [{"stack": 0, "split": 0}]})"), "in one step"},
      {rules(R"({"a": "x", "b": "y", "do": [{"rearrange": "a -> b"}]})"), "once on each side"},
      {rules(R"({"a": "x", "b": "y", "do": [{"rearrange": "a -> a", "z": 1}]})"), "unknown member"},
      {rules(R"({"a": "x", "b": "y", "if": "1 +"})"), "/rules/0/if"},
      {rules(R"({"a": "x", "b": "y"})", R"("let": {"config": 1},)"), "the name is taken"},
      {rules(R"({"a": "x", "b": "y"})", R"("options": {"o": {}},)"), "'default' is missing"},
      {rules(R"({"a": "{*a}{*b}{*c}{*d}{*e}", "b": "y"})"), "more than 4 text variables"},
      {R"({"map": "no-such-map"})", "/map: Cairn has no map of this name"},
      {R"({"map": "llama", "set": {"no_such": 1}})", "/set/no_such"},
  };
  for (const auto& c : cases)
    EXPECT_THAT(
        [&] {
          transform_checkpoint(checkpoint({{"x", {1}}}), c.first);
        },
        FailsWith(Code::kInvalidArgument, c.second))
        << c.first;
  EXPECT_THAT([] { model_map("no-such-map"); },
              FailsWith(Code::kNotFound, "there is no model map 'no-such-map'"));
}

TEST(ModelMap, RefusesLoopsWithoutAnEnd) {
  EXPECT_THAT(
      [] {
        transform_checkpoint(checkpoint({{"w.0", {1}}, {"w.99999999999", {1}}}),
                             rules(R"({"a": "w/{i}", "b": "v/{i}"})"));
      },
      FailsWith(Code::kInvalidArgument, "at most"));
  EXPECT_THAT(
      [] {
        transform_checkpoint(checkpoint({{"x", {1}}}),
                             rules(R"({"a": "x", "b": "{p}"})", R"("let": {"p": "'{p}'"},)"));
      },
      FailsWith(Code::kInvalidArgument, "contain each other"));
}

TEST(ModelMap, EveryShippedMapIsWellFormed) {
  const std::vector<ModelMapInfo> maps = model_maps();
  EXPECT_GE(maps.size(), 18U);
  for (const ModelMapInfo& map : maps) {
    EXPECT_FALSE(map.title.empty()) << map.name;
    EXPECT_FALSE(map.sources.empty()) << map.name;
    EXPECT_FALSE(map.tested.empty()) << map.name;
    for (const ModelMapOption& option : map.options) EXPECT_FALSE(option.help.empty()) << map.name;
  }
}

TEST(ModelMap, OneSidedRulesHaveNoWayBack) {
  EXPECT_THAT(
      [] {
        transform_checkpoint(checkpoint({{"x", {1}}}), R"({"rules": [{"rename": "x", "to": "y"}]})",
                             {.reverse = true});
      },
      FailsWith(Code::kInvalidArgument, "/rules/0: a rule with a regular expression"));
}

}  // namespace
}  // namespace cairn
