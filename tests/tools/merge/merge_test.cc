// merge_test.cc -- merged checkpoints: values whole, in boxes and in small memory; leaves that do
// not agree; what may be read of the result.
#include <cairn/cairn.h>
#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/matchers.h"
#include "tests/support/random_box.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::make_array;
using testing::MemoryCheckpoint;
using ::testing::Not;
using testing::random_box;

using Sources = std::vector<std::shared_ptr<const Checkpoint>>;

std::shared_ptr<MemoryCheckpoint> checkpoint_at(const std::string& path) {
  auto checkpoint = std::make_shared<MemoryCheckpoint>();
  checkpoint->mutable_info().path = path;
  return checkpoint;
}

Array random_floats(std::mt19937& random, const Shape& shape, DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (float& value : values) value = std::normal_distribution<float>()(random);
  return make_array<float>(DType::kFloat32, shape, values).cast(dtype);
}

// Three checkpoints with a weight of different types, and a counter.
Sources three(std::mt19937& random, const Shape& shape, std::int64_t other_step = 3) {
  Sources sources;
  const DType types[] = {DType::kFloat32, DType::kBfloat16, DType::kFloat64};
  for (std::size_t k = 0; k < 3; ++k) {
    const auto checkpoint = checkpoint_at("/" + std::string(1, static_cast<char>('a' + k)));
    checkpoint->add("layer.w", random_floats(random, shape, types[k]));
    checkpoint->add("step", make_array<std::int64_t>(DType::kInt64, {}, {k == 1 ? other_step : 3}));
    checkpoint->add_string("note", "text");
    sources.push_back(checkpoint);
  }
  return sources;
}

double mean_at(const Sources& sources, std::size_t i) {
  double sum = 0;
  for (const auto& source : sources)
    sum += TypedArray<double>(source->read("layer.w").cast(DType::kFloat64))[i];
  return sum / static_cast<double>(sources.size());
}

TEST(Merge, TheMeanWholeInBoxesAndInSmallMemory) {
  std::mt19937 random(testing::seed());
  const Shape shape = {37, 5, 21};
  const Sources sources = three(random, shape);
  const auto merged = merge_checkpoints(sources);
  EXPECT_EQ(merged->info("layer.w").dtype, DType::kFloat32);
  const Array whole = merged->read("layer.w");
  for (std::size_t i = 0; i < whole.as<float>().size(); ++i)
    ASSERT_EQ(whole.as<float>()[i], static_cast<float>(mean_at(sources, i))) << i;
  for (const std::uint64_t memory : {std::uint64_t{1}, std::uint64_t{5000}, std::uint64_t{40000}}) {
    const auto small = merge_checkpoints(sources, {.resources = {.threads = 3, .memory = memory}});
    EXPECT_EQ(small->read("layer.w"), whole) << memory;
    for (int draw = 0; draw < 10; ++draw) {
      const Box box = random_box(random, shape);
      Array part = Array::allocate(DType::kFloat32, box.shape);
      small->read("layer.w", box, part.mutable_view());
      Array expected = Array::allocate(DType::kFloat32, box.shape);
      copy_elements(subview(whole.view(), box), expected.mutable_view());
      EXPECT_EQ(part, expected) << memory;
    }
  }
  EXPECT_EQ(merged->read<std::int64_t>("step")[0], 3);
  EXPECT_EQ(merged->read_string(merged->index("note")), "text");
}

TEST(Merge, DestinationsWithStrides) {
  std::mt19937 random(testing::seed());
  const Sources sources = three(random, {6, 7});
  const auto merged = merge_checkpoints(sources);
  const Array whole = merged->read("layer.w");
  Array turned = Array::allocate(DType::kFloat32, {7, 6});
  MutableArrayView out = turned.mutable_view();
  out.shape = {6, 7};
  out.strides = {4, 24};
  merged->read("layer.w", Box::whole({6, 7}), out);
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 7; ++j)
      EXPECT_EQ(turned.as<float>()[j * 6 + i], whole.as<float>()[i * 7 + j]);
}

TEST(Merge, ATypeThatIsGivenIsNotForScalarsAndComplexNumbers) {
  Sources sources;
  for (const float x : {1.0F, 2.0F}) {
    const auto checkpoint = checkpoint_at("/c");
    checkpoint->add("w", make_array<float>(DType::kFloat32, {1}, {x}));
    checkpoint->add("rate", make_array<double>(DType::kFloat64, {}, {x}), "scalar");
    checkpoint->add("z", make_array<float>(DType::kComplex64, {1}, {x, -x}));
    sources.push_back(checkpoint);
  }
  const auto merged = merge_checkpoints(sources, {.dtype = DType::kBfloat16});
  EXPECT_EQ(merged->read("w"), make_array<std::uint16_t>(DType::kBfloat16, {1}, {0x3fc0}));
  EXPECT_EQ(merged->read("rate"), make_array<double>(DType::kFloat64, {}, {1.5}));
  EXPECT_EQ(merged->read("z"), make_array<float>(DType::kComplex64, {1}, {1.5F, -1.5F}));
}

TEST(Merge, TheBaseHasNoOtherRole) {
  std::mt19937 random(testing::seed());
  Sources sources = three(random, {4});
  const auto base = sources.back();
  sources.pop_back();
  const auto merged =
      merge_checkpoints(sources, {.weights = {0.5, 2}, .base = base, .scale = 0.25});
  EXPECT_EQ(merged->info().path, "/a");
  const auto number = [](const Checkpoint& checkpoint, std::size_t i) {
    return TypedArray<double>(checkpoint.read("layer.w").cast(DType::kFloat64))[i];
  };
  const Array found = merged->read("layer.w");
  for (std::size_t i = 0; i < 4; ++i) {
    const double b = number(*base, i);
    double expected = b + 0.125 * (number(*sources[0], i) - b);
    expected += 0.5 * (number(*sources[1], i) - b);
    EXPECT_EQ(found.as<float>()[i], static_cast<float>(expected));
  }
}

TEST(Merge, LeavesThatDifferAreAnErrorOrThoseOfTheFirst) {
  std::mt19937 random(testing::seed());
  const Sources sources = three(random, {2}, 4);
  EXPECT_THAT([&] { merge_checkpoints(sources); },
              FailsWith(Code::kInvalidArgument, "'step' (/b has another value)"));
  const auto merged = merge_checkpoints(sources, {.take_first = true});
  EXPECT_EQ(merged->read<std::int64_t>("step")[0], 3);
  const testing::TempDir dir;
  const ConvertReport report = convert(*merged, dir / "m.npz", {.exclude = {"note"}});
  EXPECT_THAT(report.taken_first.value(), ElementsAre("step"));
  EXPECT_THAT(convert_json(report), HasSubstr(R"("taken_first": [)"));
  const ConvertReport weights = convert(*merged, dir / "w.npz", {.include = {"layer.*"}});
  EXPECT_THAT(weights.taken_first.value(), ElementsAre());
}

TEST(Merge, TextsDiffer) {
  Sources sources;
  for (const char* text : {"one", "two"}) {
    const auto checkpoint = checkpoint_at("/c");
    checkpoint->add_string("note", text);
    sources.push_back(checkpoint);
  }
  EXPECT_THAT([&] { merge_checkpoints(sources); }, FailsWith(Code::kInvalidArgument, "'note'"));
}

TEST(Merge, IntegersOfOtherSizesAreEqualIfTheNumbersAre) {
  for (const int other : {-5, 5}) {
    const auto a = checkpoint_at("/a"), b = checkpoint_at("/b");
    a->add("n", make_array<std::int8_t>(DType::kInt8, {1}, {-5}));
    b->add("n", make_array<std::int32_t>(DType::kInt32, {1}, {other}));
    const Sources sources = {a, b};
    if (other < 0)
      EXPECT_EQ(merge_checkpoints(sources)->read("n"),
                make_array<std::int8_t>(DType::kInt8, {1}, {-5}));
    else
      EXPECT_THAT([&] { merge_checkpoints(sources); }, FailsWith(Code::kInvalidArgument, "'n'"));
  }
  // The high bits of small types do not count.
  const auto a = checkpoint_at("/a"), b = checkpoint_at("/b");
  a->add("n", make_array<std::uint8_t>(DType::kInt4, {1}, {0x0f}));
  b->add("n", make_array<std::uint8_t>(DType::kInt4, {1}, {0xff}));
  EXPECT_EQ(merge_checkpoints({a, b})->tensors().size(), 1U);
}

TEST(Merge, NamesShapesAndKindsMustAgree) {
  const auto a = checkpoint_at("/a"), b = checkpoint_at("/b");
  a->add("one", make_array<float>(DType::kFloat32, {1}, {1}));
  b->add("two", make_array<float>(DType::kFloat32, {1}, {1}));
  a->add("shape", make_array<float>(DType::kFloat32, {2}, {1, 1}));
  b->add("shape", make_array<float>(DType::kFloat32, {1, 2}, {1, 1}));
  a->add("kind", make_array<float>(DType::kFloat32, {1}, {1}));
  b->add("kind", make_array<std::int32_t>(DType::kInt32, {1}, {1}));
  a->add_node("node", "Dict");
  b->add_node("node", "List");
  const auto refused = [&](const std::string& why) {
    EXPECT_THAT([&] { merge_checkpoints({a, b}); }, FailsWith(Code::kInvalidArgument, why));
  };
  refused("the checkpoints do not agree in 5 leaves: 'one' (missing in /b)");
  refused("'two' (only in /b, not in /a)");
  refused("'shape' (float32(2,) in /a, float32(1, 2) in /b)");
  refused("'kind' (float32(1,) in /a, int32(1,) in /b)");
  refused("'node' (Dict in /a, List in /b)");
  const MergeOptions some{.include = {"one", "kind"}, .exclude = {"kind"}};
  EXPECT_THAT(
      [&] {
        merge_checkpoints({a, b}, some);
      },
      FailsWith(Code::kInvalidArgument, "in 1 leaf: 'one'"));
  for (int i = 0; i < 20; ++i)
    a->add("more." + std::to_string(i), make_array<float>(DType::kFloat32, {1}, {1}));
  refused("and 15 more");
}

TEST(Merge, ExcludedLeavesCannotBeRead) {
  const auto a = checkpoint_at("/a"), b = checkpoint_at("/b");
  for (const auto& checkpoint : {a, b})
    checkpoint->add("w", make_array<float>(DType::kFloat32, {1}, {4}));
  a->add("only", make_array<float>(DType::kFloat32, {1}, {1}));
  a->add_string("note", "text");
  const auto merged = merge_checkpoints({a, b}, {.exclude = {"only", "note"}});
  EXPECT_EQ(merged->read<float>("w")[0], 4);
  EXPECT_THAT([&] { (void)merged->read("only"); },
              FailsWith(Code::kInvalidArgument, "the globs leave it out of the merge"));
  EXPECT_THAT([&] { (void)merged->read_string(2); }, FailsWith(Code::kInvalidArgument, "globs"));
}

TEST(Merge, WrongDestinationsAndBoxes) {
  std::mt19937 random(testing::seed());
  const auto merged = merge_checkpoints(three(random, {4}));
  Array wrong = Array::allocate(DType::kFloat64, {4});
  EXPECT_THAT([&] { merged->read("layer.w", Box::whole({4}), wrong.mutable_view()); },
              FailsWith(Code::kInvalidArgument, "float64(4,); expected float32(4,)"));
  Array part = Array::allocate(DType::kFloat32, {2});
  EXPECT_THAT(
      [&] {
        merged->read("layer.w", {{3}, {2}}, part.mutable_view());
      },
      FailsWith(Code::kOutOfRange, "layer.w"));
}

// A checkpoint whose weight cannot be read.
class DamagedWeight final : public MemoryCheckpoint {
 public:
  using Checkpoint::read;
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override {
    for (const ReadRequest& request : requests)
      if (tensors()[request.tensor].name == "layer.w")
        throw Error(Code::kDataLoss, "layer.w: the checksum is wrong");
    MemoryCheckpoint::read(requests, progress);
  }
};

TEST(Merge, DamageNamesTheCheckpointAndTheLeaf) {
  std::mt19937 random(testing::seed());
  Sources sources = three(random, {4});
  const auto broken = std::make_shared<DamagedWeight>();
  broken->mutable_info().path = "/broken";
  for (const char* name : {"layer.w", "step"}) broken->add(name, sources[0]->read(name));
  broken->add_string("note", "text");
  sources[1] = broken;
  const auto merged = merge_checkpoints(sources);
  EXPECT_THAT([&] { (void)merged->read("layer.w"); },
              FailsWith(Code::kDataLoss, "/broken: layer.w: the checksum is wrong"));
  sources[1] = checkpoint_at("/part");
  auto& info = dynamic_cast<MemoryCheckpoint&>(const_cast<Checkpoint&>(*sources[1])).mutable_info();
  info.missing.push_back({.item = "", .path = "/part/x", .record = "", .text = "x is missing"});
  EXPECT_THAT([&] { merge_checkpoints(sources); }, FailsWith(Code::kDataLoss, "x is missing"));
}

TEST(Merge, TheTargetIsNotOneOfTheSources) {
  const testing::TempDir dir;
  Sources sources;
  for (const char* name : {"a.npz", "b.npz", "c.npz"}) {
    MemoryCheckpoint checkpoint;
    checkpoint.add("w", make_array<float>(DType::kFloat32, {1}, {1}));
    convert(checkpoint, dir / name, {});
    sources.push_back(open(dir / name));
  }
  const auto base = sources.back();
  sources.pop_back();
  const auto merged = merge_checkpoints(sources, {.base = base});
  for (const char* name : {"a.npz", "b.npz", "c.npz"})
    EXPECT_THAT([&] { convert(*merged, dir / name, {.if_exists = IfExists::kReplace}); },
                FailsWith(Code::kInvalidArgument, "overlaps the source checkpoint"));
  EXPECT_THAT(
      [&] {
        convert(*merged, dir.path(),
                {.format = TargetFormat::kOrbax, .if_exists = IfExists::kReplace});
      },
      FailsWith(Code::kInvalidArgument, "overlaps the source checkpoint"));
  convert(*merged, dir / "d.npz", {});
  EXPECT_EQ(open(dir / "d.npz")->read<float>("w")[0], 1);
}

TEST(Merge, TheLastCompleteStepsOfARun) {
  const testing::TempDir dir;
  for (const int step : {1, 2, 10}) {
    MemoryCheckpoint checkpoint;
    checkpoint.add("w", make_array<float>(DType::kFloat32, {1}, {static_cast<float>(step)}));
    convert(checkpoint, dir / std::to_string(step),
            {.format = TargetFormat::kOrbax, .orbax = {.item = "default"}});
  }
  EXPECT_EQ(merge_checkpoints(open_last_steps(dir.path(), 2))->read<float>("w")[0], 6);
  EXPECT_THAT([&] { open_last_steps(dir.path(), 4); },
              FailsWith(Code::kNotFound, "has 3 complete steps, not 4"));
  EXPECT_THAT([&] { open_last_steps(dir.path(), 1); }, FailsWith(Code::kInvalidArgument, "2"));
  EXPECT_THAT([&] { open_last_steps(dir.path(), 2, {.step = 1}); },
              FailsWith(Code::kInvalidArgument, "no step can be given"));
}

}  // namespace
}  // namespace cairn
