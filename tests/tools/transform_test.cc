// transform_test.cc -- rules applied to checkpoints: what they make, element by element and in
// little memory; and rules that are wrong.
#include <cairn/base/json/json.h>
#include <cairn/cairn.h>
#include <cairn/tools/transform/transform_rules.h>
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
using ::testing::HasSubstr;
using testing::make_array;
using testing::MemoryCheckpoint;

std::vector<float> counting_from(std::size_t n, float from = 0) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), from);
  return values;
}

std::shared_ptr<MemoryCheckpoint> source() {
  auto made = std::make_shared<MemoryCheckpoint>();
  for (int i = 0; i < 3; ++i) {
    const std::string layer = "layers." + std::to_string(i);
    made->add(layer + ".w",
              make_array(DType::kFloat32, {4, 6}, counting_from(24, static_cast<float>(100 * i))))
        .chunk_shape = {2, 6};
    made->add(layer + ".b",
              make_array(DType::kFloat32, {6}, counting_from(6, static_cast<float>(i))));
  }
  made->add("lora.a", make_array(DType::kFloat32, {4, 2}, counting_from(8)));
  made->add("lora.b", make_array(DType::kFloat32, {2, 6}, counting_from(12, 1)));
  made->add("ids", make_array<std::int32_t>(DType::kInt32, {3}, {7, 8, 9}));
  made->add("step", make_array<std::int64_t>(DType::kInt64, {}, {42}), "scalar");
  made->add_string("note", "hello");
  made->add_node("empty", "Dict");
  return made;
}

std::string rules(const std::string& list, const std::string& more = "") {
  return "{\"rules\": [" + list + "]" + more + "}";
}

std::vector<std::string> names(const Checkpoint& checkpoint) {
  std::vector<std::string> out;
  for (const auto& tensor : checkpoint.tensors()) out.push_back(tensor.name);
  return out;
}

std::vector<float> floats(const Checkpoint& checkpoint, const std::string& name) {
  const Array array = checkpoint.read(name);
  const auto* values = reinterpret_cast<const float*>(array.bytes().data());
  return {values, values + array.bytes().size() / sizeof(float)};
}

// Every element by itself, and every row: what pieces of any size give.
void expect_same_in_pieces(const Checkpoint& checkpoint, const std::string& name) {
  const Array whole = checkpoint.read(name);
  const Shape& shape = whole.shape();
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    Box box{Shape(shape.size()), Shape(shape.size(), 1)};
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) box.origin[d] = rest % shape[d];
    Array one = Array::allocate(whole.dtype(), box.shape);
    checkpoint.read(name, box, one.mutable_view());
    EXPECT_TRUE(
        std::equal(one.bytes().begin(), one.bytes().end(),
                   whole.bytes().begin() + i * static_cast<std::int64_t>(whole.element_size())))
        << name << " element " << i;
  }
}

TEST(TransformRules, RenamedLeavesStayWhatTheyAre) {
  const auto made = transform_checkpoint(
      source(),
      rules(
          R"j({"rename": "layers/(\\d+)/w", "to": "layers/\\1/kernel"}, {"rename": "step", "to": "count/step"},
                                               {"drop": "lora/.*"}, {"rename": "(ids|note)", "to": "x_\\1"})j"));
  EXPECT_THAT(names(*made.checkpoint),
              ElementsAre("count.step", "empty", "layers.0.b", "layers.0.kernel", "layers.1.b",
                          "layers.1.kernel", "layers.2.b", "layers.2.kernel", "x_ids", "x_note"));
  EXPECT_EQ(floats(*made.checkpoint, "layers.2.kernel"), counting_from(24, 200));
  const TensorInfo& kernel = made.checkpoint->info("layers.2.kernel");
  EXPECT_EQ(kernel.path[1].type, KeyType::kSequence);  // still a list
  EXPECT_EQ(kernel.typestr, "jax.Array");
  EXPECT_EQ(kernel.chunk_shape, (Shape{2, 6}));
  EXPECT_EQ(made.checkpoint->info("count.step").typestr, "scalar");
  EXPECT_EQ(made.checkpoint->read_string(made.checkpoint->index("x_note")), "hello");
  EXPECT_THAT(made.report.unused, ElementsAre("lora.a", "lora.b"));
  EXPECT_EQ(made.report.made.size(), 6U);
}

TEST(TransformRules, DropsLeavesThatNoRuleNames) {
  const auto made = transform_checkpoint(
      source(),
      rules(R"j({"keep": "step"}, {"rename": "ids", "to": "i"})j", R"j(, "unmentioned": "drop")j"));
  EXPECT_THAT(names(*made.checkpoint), ElementsAre("i", "step"));
}

TEST(TransformRules, ListsThatNoLongerAreBecomeDicts) {
  const auto made = transform_checkpoint(
      source(), rules(R"j({"rename": "layers/2/(.*)", "to": "layers/last/\\1"})j"));
  for (const char* name : {"layers.0.w", "layers.last.w"})
    EXPECT_EQ(made.checkpoint->info(name).path[1].type, KeyType::kDict) << name;
}

TEST(TransformRules, ArraysAreTurnedCutAndJoined) {
  const auto made = transform_checkpoint(
      source(),
      rules(
          R"j({"transpose": "layers/0/w"}, {"stack": "layers/(?P<index>\\d+)/b", "to": "b", "axis": -1},
      {"concatenate": "layers/1/w", "with": ["layers/2/w"], "to": "joined"}, {"split": "joined", "to": ["first", "second"], "axis": 1, "sizes": [1, 5]},
      {"unstack": "lora/b", "to": "rows/{index}"})j"),
      {.resources = {.memory = 16}});
  const Checkpoint& c = *made.checkpoint;
  EXPECT_EQ(c.info("layers.0.w").shape, (Shape{6, 4}));
  EXPECT_EQ(floats(c, "layers.0.w"),
            (std::vector<float>{0, 6, 12, 18, 1, 7,  13, 19, 2, 8,  14, 20,
                                3, 9, 15, 21, 4, 10, 16, 22, 5, 11, 17, 23}));
  EXPECT_EQ(c.info("b").shape, (Shape{6, 3}));
  EXPECT_EQ(floats(c, "b"),
            (std::vector<float>{0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5, 6, 5, 6, 7}));
  EXPECT_EQ(c.info("first").shape, (Shape{8, 1}));
  EXPECT_EQ(floats(c, "first"), (std::vector<float>{100, 106, 112, 118, 200, 206, 212, 218}));
  EXPECT_EQ(c.info("second").shape, (Shape{8, 5}));
  EXPECT_EQ(floats(c, "rows.1"), counting_from(6, 7));
  EXPECT_EQ(c.info("b").typestr, "np.ndarray");
  for (const char* name : {"layers.0.w", "b", "first", "second", "rows.0"})
    expect_same_in_pieces(c, name);
}

TEST(TransformRules, ScalarsStackIntoAVector) {
  auto made = std::make_shared<MemoryCheckpoint>();
  for (int i = 0; i < 12; ++i)
    made->add("s." + std::to_string(i), make_array<std::int64_t>(DType::kInt64, {}, {i * i}),
              "scalar");
  const auto stacked = transform_checkpoint(made, rules(R"j({"stack": "s/(?P<index>.*)", "to": "s"
})j"));
  EXPECT_EQ(stacked.checkpoint->info("s").shape, (Shape{12}));
  ASSERT_EQ(stacked.report.made.size(), 1U);
  EXPECT_EQ(stacked.report.made[0].second.substr(0, 15), "stack(s.0, s.1,");
  const Array array = stacked.checkpoint->read("s");  // by number: 10 after 9
  EXPECT_EQ(reinterpret_cast<const std::int64_t*>(array.bytes().data())[10], 100);
}

TEST(TransformRules, CastsAndLowRankSumsGoInPieces) {
  const std::string text = rules(
      R"j({"add_low_rank": "layers/0/w", "a": "lora/a", "b": "lora/b", "scale": 0.5}, {"cast": "(layers/.*|ids)", "dtype": "bfloat16"},
                                    {"cast": "layers/0/w", "dtype": "float32"})j");
  std::vector<float> want = counting_from(24);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 6; ++j)
      for (int k = 0; k < 2; ++k)
        want[i * 6 + j] += 0.5F * static_cast<float>((i * 2 + k) * (k * 6 + j + 1));
  for (const std::uint64_t memory : {1U, 100U, 1U << 20U}) {
    const auto made = transform_checkpoint(source(), text, {.resources = {.memory = memory}});
    // small integers and halves: exact in bfloat16, too
    EXPECT_EQ(floats(*made.checkpoint, "layers.0.w"), want) << memory;
    EXPECT_EQ(made.checkpoint->info("ids").dtype, DType::kBfloat16);
    EXPECT_EQ(made.checkpoint->info("layers.1.w").typestr, "jax.Array");
    for (const char* name : {"layers.0.w", "layers.1.w", "ids"})
      expect_same_in_pieces(*made.checkpoint, name);
  }
  const auto made = transform_checkpoint(source(), text);
  EXPECT_THAT(names(*made.checkpoint), ::testing::Not(::testing::Contains("lora.a")));
  EXPECT_THAT(made.report.made[0].second, HasSubstr("layers.0.w + 0.5 * lora.a @ lora.b"));
}

TEST(TransformRules, OnlyWhatIsNeededIsRead) {
  const auto from = source();
  const auto made = transform_checkpoint(
      from, rules(R"j({"split": "layers/1/w", "to": ["top", "rest"], "sizes": [1, 3]})j"));
  EXPECT_EQ(from->elements_read, 0U);
  (void)made.checkpoint->read("top");
  EXPECT_EQ(from->elements_read, 6U);
}

// Bytes that this process has read from files so far.
std::uint64_t bytes_read() {
  std::ifstream in("/proc/self/io");
  std::string label;
  std::uint64_t value = 0;
  in >> label >> value;
  return value;
}

TEST(TransformRules, ASmallLeafOfALargeCheckpointCostsItsBytes) {
  testing::TempDir dir;
  constexpr std::int64_t kLarge = std::int64_t{96} << 20U;
  Tree::Dict leaves;
  Array large = Array::allocate(DType::kUint8, {kLarge});
  std::fill_n(large.mutable_view().data, kLarge, std::byte{1});
  leaves.emplace_back("large", Tree(std::move(large)));
  leaves.emplace_back("small", Tree(make_array(DType::kFloat32, {64, 64}, counting_from(4096))));
  save(dir.path() + "/c", Tree(std::move(leaves)), {.compression = Compression::kNone});
  const std::uint64_t before = bytes_read();
  const auto made = transform_checkpoint(
      open(dir.path() + "/c"),
      rules(
          R"j({"rename": "small", "to": "s"}, {"drop": "large"}, {"cast": "s", "dtype": "bfloat16"})j"));
  ConvertOptions options;
  options.format = TargetFormat::kOrbax;
  convert(*made.checkpoint, dir.path() + "/out", options);
  EXPECT_LT(bytes_read() - before, std::uint64_t{1} << 20U);
  EXPECT_EQ(made.report.read_bytes, 4096 * sizeof(float));
  EXPECT_THAT(names(*open(dir.path() + "/out")), ElementsAre("s"));
}

TEST(TransformRules, ADryRunWritesNothing) {
  testing::TempDir dir;
  const auto made = transform_checkpoint(
      source(), rules(R"j({"keep": "layers/.*"})j", R"j(, "unmentioned": "drop")j"));
  ConvertOptions options;
  options.dry_run = true;
  const ConvertReport report = convert(*made.checkpoint, dir.path() + "/x.safetensors", options);
  EXPECT_EQ(report.tensors, 6U);
  EXPECT_TRUE(report.files.empty());
  EXPECT_FALSE(std::ifstream(dir.path() + "/x.safetensors").good());
}

TEST(TransformRules, RulesThatDoNotFitTheLeavesNameTheirPlace) {
  const struct {
    const char *rule, *why;
  } kCases[] = {
      {R"j({"rename": "nothing", "to": "x"})j", "matches no key"},
      {R"j({"rename": "layers/.*", "to": "x"})j", "two leaves would have the key 'x'"},
      {R"j({"rename": "ids", "to": "step"})j", "two leaves would have the key 'step'"},
      {R"j({"rename": "ids", "to": "step/x"})j", "a leaf and a container"},
      {R"j({"rename": "ids", "to": "\\3"})j", "invalid group reference 3"},
      {R"j({"rename": "(", "to": "x"})j", "unterminated subpattern"},
      {R"j({"cast": "note", "dtype": "int8"})j", "is not an array (kind: string)"},
      {R"j({"cast": "empty", "dtype": "int8"})j", "is not an array (kind: Dict)"},
      {R"j({"transpose": "layers/0/w", "axes": [0]})j", "not a permutation"},
      {R"j({"transpose": "layers/0/w", "axes": [0, 2]})j", "axis 2 of an array of 2 dimensions"},
      {R"j({"stack": "layers/(\\d+)/b", "to": "b"})j", "unknown group name 'index'"},
      {R"j({"stack": "layers/(?P<index>[02])/b", "to": "b"})j", "some are missing"},
      {R"j({"stack": "(?P<index>ids)", "to": "b"})j", "not a number"},
      {R"j({"stack": "layers/(?P<index>\\d)/.", "to": "b"})j", "two arrays have the index 0"},
      {R"j({"stack": "layers/(?P<index>\\d)/w", "to": "b", "axis": 3})j", "axis 3"},
      {R"j({"unstack": "ids", "to": "x"})j", "must contain {index}"},
      {R"j({"unstack": "step", "to": "x{index}"})j", "axis 0 of an array of 0 dimensions"},
      {R"j({"concatenate": "ids", "with": ["lora/a"], "to": "x"})j", "do not match along axis 0"},
      {R"j({"concatenate": "ids", "with": ["layers/0/b"], "to": "x"})j", "cast them first"},
      {R"j({"concatenate": "ids", "with": ["ids"], "to": "x"})j",
       "there is no leaf 'ids', or an earlier rule took it"},
      {R"j({"split": "ids", "to": ["a", "b"]})j", "cannot be split into 2 equal parts"},
      {R"j({"split": "ids", "to": ["a", "b"], "sizes": [1, 1]})j", "parts of these sizes"},
      {R"j({"split": "ids", "to": ["a", "b"], "sizes": [9223372036854775807, 9223372036854775807]})j",
       "parts of these sizes"},
      {R"j({"add_low_rank": "layers/0/w", "a": "lora/b", "b": "lora/a"})j", "needs shapes (m, n)"},
      {R"j({"add_low_rank": "ids", "a": "lora/a", "b": "lora/b"})j", "floating arrays, not int32"},
      {R"j({"add_low_rank": "layers/0/w", "a": "lora/x", "b": "lora/b"})j",
       "there is no leaf 'lora/x'"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.rule);
    EXPECT_THAT([&] { transform_checkpoint(source(), rules(c.rule)); },
                FailsWith(Code::kInvalidArgument, c.why));
  }
  EXPECT_THAT(
      [] { transform_checkpoint(source(), rules(R"j({"keep": "ids"}, {"keep": "nothing"})j")); },
      FailsWith(Code::kInvalidArgument, "/rules/1"));
}

TEST(TransformRules, BadJsonNamesThePointer) {
  const struct {
    const char *json, *why;
  } kCases[] = {
      {"", "the rules are not JSON"},
      {"[", "the rules are not JSON"},
      {"[]", "(the whole document): expected an object"},
      {"{}", "'rules' is missing"},
      {R"j({"rules": []})j", "/rules: the list is empty"},
      {R"j({"rules": 3})j", "/rules: expected a list"},
      {R"j({"rules": [3]})j", "/rules/0: expected a rule"},
      {R"j({"rules": [{}]})j", "/rules/0: no operation; expected one of rename, drop"},
      {R"j({"rules": [{"drop": "a", "keep": "b"}]})j", "/rules/0: both 'drop' and 'keep'"},
      {R"j({"rules": [{"drop": "a"}, {"drop": 1}]})j", "/rules/1/drop: expected a string"},
      {R"j({"rules": [{"drop": ""}]})j", "/rules/0/drop: the string is empty"},
      {R"j({"rules": [{"drop": "a", "drop": "b"}]})j", "/rules/0/drop: the member appears twice"},
      {R"j({"rules": [{"drop": "a", "t/o": "b"}]})j", "/rules/0/t~1o: unknown member"},
      {R"j({"rules": [{"rename": "a"}]})j", "/rules/0: 'rename' needs 'to'"},
      {R"j({"rules": [{"rename": "a", "to": ["b"]}]})j", "/rules/0/to: expected a string"},
      {R"j({"rules": [{"split": "a", "to": "b"}]})j", "/rules/0/to: expected a list"},
      {R"j({"rules": [{"split": "a", "to": ["b", 1]}]})j", "/rules/0/to/1: expected a string"},
      {R"j({"rules": [{"split": "a", "to": ["b"], "sizes": [1, 2]}]})j",
       "/rules/0/sizes: expected as many"},
      {R"j({"rules": [{"split": "a", "to": ["b", "c"], "sizes": [1, 0]}]})j",
       "/rules/0/sizes/1: expected a size above 0"},
      {R"j({"rules": [{"cast": "a", "dtype": "float31"}]})j",
       "/rules/0/dtype: unknown element type 'float31'"},
      {R"j({"rules": [{"stack": "a", "to": "b", "axis": 1.5}]})j",
       "/rules/0/axis: expected an integer"},
      {R"j({"rules": [{"add_low_rank": "w", "a": "a"}]})j", "'add_low_rank' needs 'b'"},
      {R"j({"rules": [{"add_low_rank": "w", "a": "a", "b": "b", "scale": Infinity}]})j",
       "/rules/0/scale: expected a finite number"},
      {R"j({"rules": [{"drop": "a"}], "unmentioned": "both"})j",
       "/unmentioned: expected 'keep' or 'drop'"},
      {R"j({"rules": [{"drop": "a"}], "extra": 1})j",
       "/extra: unknown member; expected one of rules, unmentioned"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.json);
    EXPECT_THAT([&] { parse_transform_rules(c.json); }, FailsWith(Code::kInvalidArgument, c.why));
  }
}

}  // namespace
}  // namespace cairn
