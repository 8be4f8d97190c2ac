// dequantize_test.cc -- dequantised weights, element by element, whole and in boxes; what stays as
// it is; and parts that do not belong together.
#include <cairn/array/small_float.h>
#include <cairn/cairn.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "tests/support/matchers.h"
#include "tests/support/random_box.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/dequantize/quantized_model.h"

namespace cairn {
namespace {

using testing::element_at;
using ::testing::ElementsAre;
using testing::FailsWith;
using testing::for_each_index;
using testing::Index;
using testing::make_array;
using testing::MemoryCheckpoint;
using testing::random_array;
using testing::random_box;
using testing::random_floats;

constexpr DType kFp8 = DType::kFloat8E4m3fn;
DequantizeOptions to_float32_options() { return {.dtype = DType::kFloat32}; }

float fp8_number(const Array& codes, const Index& index) {
  return small_float::kDecoded<small_float::kE4m3fn>[element_at<std::uint8_t>(codes, index)];
}

std::vector<std::string> leaf_names_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : checkpoint.tensors()) names.push_back(tensor.name);
  return names;
}

// Checks a leaf whole, in small memory and in boxes.
void expect_dequantized(const std::shared_ptr<MemoryCheckpoint>& source, const std::string& name,
                        const Shape& shape, const std::function<float(const Index&)>& expected) {
  std::mt19937 random(testing::seed());
  const Array whole = dequantize(source, to_float32_options()).checkpoint->read(name);
  EXPECT_EQ(testing::first_difference(whole, shape, expected), "") << name;
  for (const std::uint64_t memory : {std::uint64_t{1}, std::uint64_t{300}, std::uint64_t{5000}}) {
    const auto small = dequantize(
        source, {.dtype = DType::kFloat32, .resources = {.threads = 3, .memory = memory}});
    EXPECT_EQ(testing::first_difference(small.checkpoint->read(name), shape, expected), "")
        << name << " in " << memory << " bytes";
    EXPECT_EQ(testing::difference_in_boxes(
                  *small.checkpoint, name, whole, random,
                  [](std::mt19937& r, const Shape& s) { return random_box(r, s); }),
              "");
  }
}

// ---- float8 ----

TEST(DequantizeFp8, BlocksWithPartialOnesAtTheEdges) {
  std::mt19937 random(testing::seed());
  const Array codes = random_array(random, kFp8, {70, 45});
  const Array scale = random_floats(random, {3, 2});
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->add("layers.0.weight", codes);
  source->add("layers.0.weight_scale_inv", scale);
  source->add("norm", make_array<float>(DType::kFloat32, {2}, {1, 2}));
  const auto made = dequantize(source);
  EXPECT_THAT(leaf_names_of(*made.checkpoint), ElementsAre("layers.0.weight", "norm"));
  EXPECT_EQ(made.checkpoint->info("layers.0.weight").dtype, DType::kBfloat16);
  EXPECT_THAT(made.report.dequantized,
              ElementsAre(std::pair("layers.0.weight", "fp8, blocks of 32 x 32")));
  EXPECT_THAT(made.report.dropped, ElementsAre("layers.0.weight_scale_inv"));
  EXPECT_EQ(made.checkpoint->read("norm"), source->read("norm"));
  expect_dequantized(source, "layers.0.weight", {70, 45}, [&](const Index& i) {
    return fp8_number(codes, i) * element_at<float>(scale, {i[0] / 32, i[1] / 32});
  });
}

TEST(DequantizeFp8, OneScaleOrOneForEachChannel) {
  std::mt19937 random(testing::seed());
  const Array codes = random_array(random, kFp8, {7, 33});
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7, 1}, Shape{1, 33}}) {
    const Array scale = random_floats(random, shape);
    const auto source = std::make_shared<MemoryCheckpoint>();
    source->add("w.weight", codes);
    source->add("w.weight_scale", scale);
    source->add("w.input_scale", random_floats(random, {}));
    EXPECT_THAT(leaf_names_of(*dequantize(source).checkpoint), ElementsAre("w.weight"));
    expect_dequantized(source, "w.weight", {7, 33}, [&](const Index& i) {
      Index at = shape.empty() ? Index{} : shape.size() == 1 ? Index{0} : i;
      for (std::size_t d = 0; d < at.size(); ++d) at[d] = std::min(at[d], shape[d] - 1);
      return fp8_number(codes, i) * element_at<float>(scale, at);
    });
  }
}

TEST(DequantizeFp8, ExpertsAndScalesOfE8m0) {
  std::mt19937 random(testing::seed());
  const Array codes = random_array(random, kFp8, {3, 16, 40});
  for (const DType dtype : {DType::kUint8, DType::kFloat8E8m0fnu}) {
    const Array scale = random_array(random, dtype, {3, 2, 5});
    const auto source = std::make_shared<MemoryCheckpoint>();
    source->add("experts.gate_up_proj", codes);
    source->add("experts.gate_up_proj_scale_inv", scale);
    expect_dequantized(source, "experts.gate_up_proj", {3, 16, 40}, [&](const Index& i) {
      const unsigned code = element_at<std::uint8_t>(scale, {i[0], i[1] / 8, i[2] / 8});
      return fp8_number(codes, i) *
             (code == 255 ? NAN : std::ldexp(1.0F, static_cast<int>(code) - 127));
    });
  }
}

TEST(DequantizeFp8, TheTypeAndTheBlocksOfTheConfiguration) {
  const testing::TempDir dir;
  std::ofstream(dir / "config.json")
      << R"({"torch_dtype": "float16", "quantization_config": {"weight_block_size": [20, 30]}})";
  std::mt19937 random(testing::seed());
  const Array codes = random_array(random, kFp8, {50, 40});
  const Array scale = random_floats(random, {3, 2});
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->mutable_info().path = dir / "model.safetensors";
  source->add("w", codes);
  source->add("w_scale_inv", scale);
  EXPECT_EQ(dequantize(source).checkpoint->info("w").dtype, DType::kFloat16);
  expect_dequantized(source, "w", {50, 40}, [&](const Index& i) {
    return fp8_number(codes, i) * element_at<float>(scale, {i[0] / 20, i[1] / 30});
  });
}

TEST(DequantizeFp8, RoundsOnceToTheTypeOfTheResult) {
  std::mt19937 random(testing::seed());
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->add("w", random_array(random, kFp8, {64, 64}));
  source->add("w_scale", random_floats(random, {64, 1}));
  const Array wide = dequantize(source, to_float32_options()).checkpoint->read("w");
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat64, DType::kFloat32})
    EXPECT_EQ(dequantize(source, {.dtype = dtype}).checkpoint->read("w"), wide.cast(dtype));
  EXPECT_THAT([&] { dequantize(source, {.dtype = DType::kInt8}); },
              FailsWith(Code::kInvalidArgument, "int8: expected a floating-point type"));
}

// ---- MXFP4 ----

TEST(DequantizeMxfp4, ExpertsAreTransposed) {
  std::mt19937 random(testing::seed());
  const Array blocks = random_array(random, DType::kUint8, {2, 5, 3, 16});
  const Array scales = random_array(random, DType::kUint8, {2, 5, 3});
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->add("mlp.down_proj_blocks", blocks);
  source->add("mlp.down_proj_scales", scales);
  source->add("original.mlp1.blocks", blocks);
  source->add("original.mlp1.scales", scales);
  const auto made = dequantize(source);
  EXPECT_THAT(leaf_names_of(*made.checkpoint), ElementsAre("mlp.down_proj", "original.mlp1"));
  const auto number = [&](std::int64_t x, std::int64_t n, std::int64_t k) {
    const unsigned byte = element_at<std::uint8_t>(blocks, {x, n, k / 32, k % 32 / 2});
    const unsigned code = byte >> (k % 2 == 0 ? 0U : 4U) & 15U;
    const unsigned scale = element_at<std::uint8_t>(scales, {x, n, k / 32});
    return small_float::kDecoded<small_float::kE2m1fn>[code] *
           (scale == 255 ? NAN : std::ldexp(1.0F, static_cast<int>(scale) - 127));
  };
  expect_dequantized(source, "mlp.down_proj", {2, 96, 5},
                     [&](const Index& i) { return number(i[0], i[2], i[1]); });
  expect_dequantized(source, "original.mlp1", {2, 5, 96},
                     [&](const Index& i) { return number(i[0], i[1], i[2]); });
}

// ---- packed integers ----

struct PackedCase {
  std::int64_t bits;
  Shape shape;   // of the weight
  Shape scales;  // of its scales
  bool has_zero_points, has_groups;
};

void check_packed(const PackedCase& c, std::mt19937& random) {
  const std::int64_t per = 32 / c.bits;
  const auto words = [&](std::int64_t n) { return (n + per - 1) / per; };
  const std::size_t rank = c.shape.size();
  Shape packed = c.shape, zero_shape = c.scales;
  packed.back() = words(packed.back());
  zero_shape[rank - 2] = words(zero_shape[rank - 2]);
  const Array codes = random_array(random, DType::kInt32, packed);
  const Array scales = random_floats(random, c.scales);
  const Array zeros = random_array(random, DType::kInt32, zero_shape);
  std::vector<std::int32_t> groups;
  for (std::int64_t i = 0; i < c.shape.back(); ++i)
    groups.push_back(
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(c.scales.back())));
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->add("p.weight_packed", codes);
  source->add("p.weight_scale", scales);
  source->add("p.weight_shape",
              make_array(DType::kInt64, {static_cast<std::int64_t>(rank)}, c.shape));
  if (c.has_zero_points) source->add("p.weight_zero_point", zeros);
  if (c.has_groups)
    source->add("p.weight_g_idx", make_array(DType::kInt32, {c.shape.back()}, groups));
  EXPECT_THAT(leaf_names_of(*dequantize(source).checkpoint), ElementsAre("p.weight"));
  const auto code = [&](const Array& array, Index at, std::size_t axis) {
    const std::int64_t shift = at[axis] % per * c.bits;
    at[axis] /= per;
    const auto word = static_cast<std::uint64_t>(element_at<std::uint32_t>(array, at));
    const auto offset = std::int64_t{1} << (c.bits - 1);
    return static_cast<std::int64_t>(word >> static_cast<unsigned>(shift) &
                                     ((std::uint64_t{1} << c.bits) - 1)) -
           offset;
  };
  const std::int64_t size = (c.shape.back() + c.scales.back() - 1) / c.scales.back();
  expect_dequantized(source, "p.weight", c.shape, [&](const Index& i) {
    Index group = i;
    group.back() = c.has_groups ? groups[static_cast<std::size_t>(i.back())] : i.back() / size;
    const std::int64_t zero = c.has_zero_points ? code(zeros, group, rank - 2) : 0;
    return static_cast<float>(code(codes, i, rank - 1) - zero) * element_at<float>(scales, group);
  });
}

TEST(DequantizePacked, CodesOfFourAndEightBits) {
  std::mt19937 random(testing::seed());
  for (const std::int64_t bits : {4, 8})
    for (const bool zeros : {false, true})
      for (const bool groups : {false, true})
        for (const auto& [shape, scales] : std::vector<std::pair<Shape, Shape>>{
                 {{13, 96}, {13, 3}}, {{9, 75}, {9, 1}}, {{3, 10, 64}, {3, 10, 2}}})
          check_packed({bits, shape, scales, zeros, groups}, random);
}

TEST(DequantizePacked, GroupsThatAreNotSet) {
  const auto source = std::make_shared<MemoryCheckpoint>();
  std::mt19937 random(testing::seed());
  source->add("p.weight_packed", random_array(random, DType::kInt32, {2, 8}));
  source->add("p.weight_scale", random_floats(random, {2, 2}));
  source->add("p.weight_shape", make_array<std::int64_t>(DType::kInt64, {2}, {2, 64}));
  const Array expected = dequantize(source).checkpoint->read("p.weight");
  source->add("p.weight_g_idx", make_array(DType::kInt32, {64}, std::vector<std::int32_t>(64, -1)));
  EXPECT_EQ(dequantize(source).checkpoint->read("p.weight"), expected);
}

TEST(DequantizePacked, GroupsOutsideOfTheScales) {
  for (const std::int32_t bad : {2, -2, 2147483647, -2147483647 - 1}) {
    const auto source = std::make_shared<MemoryCheckpoint>();
    std::mt19937 random(testing::seed());
    source->add("p.weight_packed", random_array(random, DType::kInt32, {2, 8}));
    source->add("p.weight_scale", random_floats(random, {2, 2}));
    source->add("p.weight_shape", make_array<std::int64_t>(DType::kInt64, {2}, {2, 64}));
    std::vector<std::int32_t> groups(64, 1);
    groups[40] = bad;
    source->add("p.weight_g_idx", make_array(DType::kInt32, {64}, groups));
    EXPECT_THAT([&] { (void)dequantize(source).checkpoint->read("p.weight"); },
                FailsWith(Code::kDataLoss, "p.weight_g_idx: group " + std::to_string(bad)));
  }
}

// ---- PyTorch ----

TEST(DequantizeAffine, PerTensorAndPerChannel) {
  std::mt19937 random(testing::seed());
  const Array integers = random_array(random, DType::kInt32, {5, 40});
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->add("q.int_repr", integers);
  source->add("q.scale", make_array<double>(DType::kFloat64, {}, {0.37}), "scalar");
  source->add("q.zero_point", make_array<std::int64_t>(DType::kInt64, {}, {-5}), "scalar");
  const auto made = dequantize(source);
  EXPECT_THAT(leaf_names_of(*made.checkpoint), ElementsAre("q"));
  EXPECT_THAT(made.report.dequantized, ElementsAre(std::pair("q", "qint32, per tensor")));
  EXPECT_EQ(made.checkpoint->info("q").dtype, DType::kFloat32);
  EXPECT_EQ(made.checkpoint->structure(), (Tree{{"q", std::int64_t{0}}}));
  expect_dequantized(source, "q", {5, 40}, [&](const Index& i) {
    const auto difference = element_at<std::uint32_t>(integers, i) + 5U;
    return 0.37F * static_cast<float>(static_cast<std::int32_t>(difference));
  });
  for (const std::int64_t axis : {0, 1}) {
    const auto channels = std::make_shared<MemoryCheckpoint>();
    const Shape shape = {integers.shape()[static_cast<std::size_t>(axis)]};
    const Array scales = random_floats(random, shape).cast(DType::kFloat64);
    const Array zeros = random_floats(random, shape);
    channels->add("q.int_repr", integers);
    channels->add("q.scales", scales);
    channels->add("q.zero_points", zeros);
    channels->add("q.axis", make_array<std::int64_t>(DType::kInt64, {}, {axis}), "scalar");
    expect_dequantized(channels, "q", {5, 40}, [&](const Index& i) {
      const Index channel = {i[static_cast<std::size_t>(axis)]};
      const float difference = static_cast<float>(element_at<std::int32_t>(integers, i)) -
                               element_at<float>(zeros, channel);
      return static_cast<float>(static_cast<double>(difference) *
                                element_at<double>(scales, channel));
    });
  }
}

TEST(DequantizeAffine, AttributesStayBesideTheTensor) {
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->add("q.int_repr", make_array<std::int8_t>(DType::kInt8, {2}, {3, -4}));
  source->add("q.scale", make_array<double>(DType::kFloat64, {}, {0.5}), "scalar");
  source->add("q.zero_point", make_array<std::int64_t>(DType::kInt64, {}, {1}), "scalar");
  source->add_string("q.__dict__.note", "kept");
  const auto made = dequantize(source);
  EXPECT_THAT(leaf_names_of(*made.checkpoint), ElementsAre("q.value", "q.__dict__.note"));
  EXPECT_EQ(made.checkpoint->read_string(1), "kept");
  EXPECT_EQ(made.checkpoint->structure(),
            (Tree{{"q", {{"value", std::int64_t{0}}, {"__dict__", {{"note", std::int64_t{1}}}}}}}));
}

// ---- what is read ----

TEST(Dequantize, ReadsEachCodeOnceAndBoxesOnlyWhatTheyNeed) {
  std::mt19937 random(testing::seed());
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->add("w", random_array(random, kFp8, {1024, 1024}));
  source->add("w_scale_inv", random_floats(random, {8, 8}));
  const auto made = dequantize(source, {.resources = {.memory = 100'000}});
  source->elements_read = 0;
  (void)made.checkpoint->read("w");
  EXPECT_GE(source->elements_read, 1024U * 1024);
  EXPECT_LE(source->elements_read, 1024U * 1024 + 16 * 64);
  source->elements_read = 0;
  Array part = Array::allocate(DType::kBfloat16, {4, 200});
  made.checkpoint->read("w", {{130, 300}, {4, 200}}, part.mutable_view());
  EXPECT_EQ(source->elements_read, 4U * 200 + 2);
}

TEST(Dequantize, NothingIsQuantised) {
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->add("a.0", make_array<float>(DType::kFloat32, {2}, {1, 2}));
  source->add("a.1", make_array<std::int8_t>(DType::kInt8, {1}, {7}));
  source->add("int_repr", make_array<std::int8_t>(DType::kInt8, {1}, {7}));
  source->add("layer_scale", make_array<float>(DType::kFloat32, {2}, {1, 2}));
  source->add("transformer_scales", make_array<float>(DType::kFloat32, {2}, {1, 2}));
  source->add_node("empty", "Dict");
  const auto made = dequantize(source);
  EXPECT_TRUE(made.report.dequantized.empty());
  EXPECT_EQ(leaf_names_of(*made.checkpoint), leaf_names_of(*source));
  EXPECT_EQ(made.checkpoint->structure(), source->structure());
  EXPECT_EQ(made.checkpoint->read("a.1"), source->read("a.1"));
  EXPECT_EQ(made.checkpoint->info().layout, source->info().layout);
}

TEST(Dequantize, DestinationsThatDoNotFit) {
  const auto source = std::make_shared<MemoryCheckpoint>();
  std::mt19937 random(testing::seed());
  source->add("p.weight_packed", random_array(random, DType::kInt32, {2, 5}));
  source->add("p.weight_scale", random_floats(random, {2, 1}));
  source->add("p.weight_shape", make_array<std::int64_t>(DType::kInt64, {2}, {2, 35}));
  const auto made = dequantize(source).checkpoint;
  Array out = Array::allocate(DType::kBfloat16, {2, 36});
  EXPECT_THAT(
      [&] {
        made->read("p.weight", Box::whole({2, 36}), out.mutable_view());
      },
      FailsWith(Code::kOutOfRange, "p.weight"));
  EXPECT_THAT(
      [&] {
        made->read("p.weight", Box::whole({2, 35}), out.mutable_view());
      },
      FailsWith(Code::kInvalidArgument, "p.weight"));
  Array wide = Array::allocate(DType::kFloat32, {2, 35});
  EXPECT_THAT(
      [&] {
        made->read("p.weight", Box::whole({2, 35}), wide.mutable_view());
      },
      FailsWith(Code::kInvalidArgument, "expected bfloat16(2, 35)"));
}

// ---- parts that do not belong together ----

struct StoredPart {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<std::int64_t> integers = {};  // of int64; else zeros
};

std::shared_ptr<MemoryCheckpoint> checkpoint_of(const std::vector<StoredPart>& parts) {
  auto source = std::make_shared<MemoryCheckpoint>();
  for (const StoredPart& part : parts) {
    Array array = Array::allocate(part.dtype, part.shape);
    if (!array.bytes().empty()) std::memset(array.mutable_view().data, 0, array.bytes().size());
    if (!part.integers.empty()) array = make_array(part.dtype, part.shape, part.integers);
    source->add(part.name, array);
  }
  return source;
}

TEST(Dequantize, WrongParts) {
  constexpr auto kI32 = DType::kInt32, kF32 = DType::kFloat32, kI64 = DType::kInt64,
                 kU8 = DType::kUint8, kI8 = DType::kInt8, kF64 = DType::kFloat64;
  constexpr std::int64_t kHuge = std::int64_t{1} << 62U;
  const StoredPart packed{"p.weight_packed", kI32, {4, 8}}, scale{"p.weight_scale", kF32, {4, 2}},
      shape{"p.weight_shape", kI64, {2}, {4, 64}};
  const StoredPart integers{"q.int_repr", kI8, {4, 6}}, scales{"q.scales", kF64, {4}},
      zeros{"q.zero_points", kI64, {4}}, axis{"q.axis", kI64, {}, {0}};
  const struct {
    std::vector<StoredPart> parts;
    Code code;
    std::string text;
  } cases[] = {
      {{{"w", kFp8, {4, 4}}}, Code::kInvalidArgument, "w: float8_e4m3fn without a scale"},
      {{{"w_scale_inv", kF32, {4}}}, Code::kInvalidArgument, "w_scale_inv: scales without"},
      {{{"w", kFp8, {4, 4}}, {"w_scale", kF32, {3, 1}}}, Code::kDataLoss, "w: its scale has"},
      {{{"w", kFp8, {4, 4}}, {"w_scale", kF32, {0, 1}}}, Code::kDataLoss, "w: its scale has"},
      {{{"w", kFp8, {4, 4}}, {"w_scale", kF64, {}}}, Code::kDataLoss, "w_scale: scales of type"},
      {{{"w", kFp8, {5, 200}}, {"w_scale", kF32, {5, 2}}},
       Code::kInvalidArgument,
       "w: the size of"},
      {{{"w", kFp8, {4, 4}}, {"w_scale", kF32, {4, 1}}, {"w_zero_point", kI8, {4}}},
       Code::kDataLoss,
       "w_zero_point: int8(4,)"},
      {{{"x_blocks", kU8, {2, 3, 4, 16}}}, Code::kInvalidArgument, "without x_scales"},
      {{{"x_scales", kU8, {2, 3, 4}}}, Code::kInvalidArgument, "x_scales: scales without"},
      {{{"x_blocks", kU8, {2, 3, 4, 8}}, {"x_scales", kU8, {2, 3, 4}}},
       Code::kDataLoss,
       "x_blocks: blocks of MXFP4 of shape (2, 3, 4, 8)"},
      {{{"x_blocks", kU8, {3, 4, 16}}, {"x_scales", kU8, {3, 4}}}, Code::kDataLoss, "x_blocks"},
      {{{"x_blocks", kU8, {2, 3, 4, 16}}, {"x_scales", kU8, {2, 3, 5}}},
       Code::kDataLoss,
       "x_scales: uint8(2, 3, 5)"},
      {{{"x_blocks", kU8, {2, 3, 4, 16}}, {"x_scales", kF32, {2, 3, 4}}},
       Code::kDataLoss,
       "x_scales"},
      {{packed, scale}, Code::kInvalidArgument, "without p.weight_shape"},
      {{packed, shape}, Code::kInvalidArgument, "without p.weight_scale"},
      {{packed, scale, {"p.weight_shape", kI64, {2}, {5, 64}}},
       Code::kDataLoss,
       "p.weight_shape: (5, 64)"},
      {{packed, scale, {"p.weight_shape", kI64, {2}, {4, kHuge}}},
       Code::kDataLoss,
       "p.weight_shape"},
      {{packed, scale, {"p.weight_shape", kI64, {2}, {4, -64}}}, Code::kDataLoss, "p.weight_shape"},
      {{packed, scale, {"p.weight_shape", kI64, {2}, {kHuge, kHuge}}},
       Code::kDataLoss,
       "p.weight_shape"},
      {{packed, scale, {"p.weight_shape", kI64, {3}, {1, 4, 64}}},
       Code::kDataLoss,
       "p.weight_shape"},
      {{packed, scale, {"p.weight_shape", kF32, {2}}},
       Code::kDataLoss,
       "p.weight_shape: expected a list"},
      {{packed, scale, {"p.weight_shape", kI64, {100}}},
       Code::kDataLoss,
       "p.weight_shape: expected a list"},
      {{packed, scale, {"p.weight_shape", kI64, {2}, {4, 10}}},
       Code::kDataLoss,
       "p.weight_packed: 8 words"},
      {{packed, scale, {"p.weight_shape", kI64, {2}, {4, 80}}}, Code::kUnimplemented, "of 3 bits"},
      {{{"p.weight_packed", kI32, {4, 1}}, scale, {"p.weight_shape", kI64, {2}, {4, 4}}},
       Code::kInvalidArgument,
       "may have 1 to 8 bits"},
      {{packed, {"p.weight_scale", kF32, {5, 2}}, shape},
       Code::kDataLoss,
       "p.weight_packed: its scale"},
      {{packed, scale, shape, {"p.weight_zero_point", kI32, {2, 2}}},
       Code::kDataLoss,
       "p.weight_zero_point"},
      {{packed, scale, shape, {"p.weight_g_idx", kI32, {63}}}, Code::kDataLoss, "p.weight_g_idx"},
      {{packed, scale, shape, {"p.weight_g_idx", kF32, {64}}}, Code::kDataLoss, "p.weight_g_idx"},
      {{{"p.weight_packed", kU8, {4, 8}}, scale}, Code::kUnimplemented, "p.weight_packed"},
      {{packed, scale, shape, {"p.weight", kF32, {4, 64}}},
       Code::kInvalidArgument,
       "is another leaf"},
      {{integers, {"q.scale", kF64, {}}}, Code::kInvalidArgument, "without q.zero_point"},
      {{integers, {"q.scale", kF64, {2}}, {"q.zero_point", kI64, {}}}, Code::kDataLoss, "q.scale"},
      {{integers, {"q.scale", kF64, {}}, {"q.zero_point", kF64, {}}},
       Code::kDataLoss,
       "q.zero_point"},
      {{integers, scales, zeros}, Code::kInvalidArgument, "without q.axis"},
      {{integers, scales, zeros, {"q.axis", kI64, {}, {1}}},
       Code::kDataLoss,
       "q.scales: float64(4,)"},
      {{integers, scales, zeros, {"q.axis", kI64, {}, {2}}},
       Code::kDataLoss,
       "q.axis: is not an axis"},
      {{integers, scales, zeros, {"q.axis", kI64, {}, {-1}}}, Code::kDataLoss, "q.axis"},
      {{integers, scales, {"q.zero_points", kI64, {5}}, axis}, Code::kDataLoss, "q.zero_points"},
      {{{"q.int_repr", kF32, {4}}, scales, zeros, axis}, Code::kDataLoss, "q.int_repr"},
      {{{"g.qweight", kI32, {8, 4}},
        {"g.qzeros", kI32, {2, 1}},
        {"g.scales", DType::kFloat16, {2, 4}}},
       Code::kUnimplemented,
       "g.qweight: is quantised by GPTQ"},
      {{{"g.qweight", kI32, {64, 1}},
        {"g.qzeros", kI32, {2, 1}},
        {"g.scales", DType::kFloat16, {2, 8}}},
       Code::kUnimplemented,
       "by AWQ"},
      {{{"b.weight.quant_map", kF32, {16}}}, Code::kUnimplemented, "by bitsandbytes"},
      {{{"n.weight", kU8, {4, 8}}, {"n.weight_scale", kFp8, {4, 1}}},
       Code::kUnimplemented,
       "by NVFP4"},
      {{{"d.weight", kI8, {4, 8}}, {"d.scale", DType::kFloat8E8m0fnu, {4, 1}}},
       Code::kUnimplemented,
       "d.weight: int8 with scales of E8M0"},
  };
  for (const auto& c : cases)
    EXPECT_THAT([&] { dequantize(checkpoint_of(c.parts)); }, FailsWith(c.code, c.text)) << c.text;
}

TEST(Dequantize, MethodsThatCairnDoesNotKnow) {
  const testing::TempDir dir;
  std::ofstream(dir / "config.json") << R"({"quantization_config": {"quant_method": "hqq"}})";
  const auto source = checkpoint_of({{"w", DType::kFloat32, {2}}});
  source->mutable_info().path = dir.path();
  EXPECT_THAT([&] { dequantize(source); },
              FailsWith(Code::kUnimplemented, "config.json: the model is quantised by hqq"));
  std::ofstream(dir / "config.json") << "{";
  EXPECT_THAT([&] { dequantize(source); }, FailsWith(Code::kDataLoss, "config.json"));
}

// ---- conversions ----

TEST(Dequantize, ConvertsAndReports) {
  const testing::TempDir dir;
  std::mt19937 random(testing::seed());
  const auto source = std::make_shared<MemoryCheckpoint>();
  source->add("a.weight", random_array(random, kFp8, {256, 256}));
  source->add("a.weight_scale_inv", random_floats(random, {2, 2}));
  source->add("b.weight", random_array(random, kFp8, {8, 8}));
  source->add("b.weight_scale", random_floats(random, {}));
  const auto made = dequantize(source);
  const ConvertReport report =
      convert(*made.checkpoint, dir / "x.safetensors", {.include = {"a.*"}});
  ASSERT_TRUE(report.dequantized);
  EXPECT_THAT(*report.dequantized, ElementsAre(std::pair("a.weight", "fp8, blocks of 128 x 128")));
  EXPECT_NE(convert_json(report).find("\"format\": \"fp8, blocks of 128 x 128\""),
            std::string::npos);
  EXPECT_EQ(open(dir / "x.safetensors")->read("a.weight"), made.checkpoint->read("a.weight"));
  EXPECT_EQ(convert(*source, dir / "y.safetensors", {}).dequantized, std::nullopt);
}

}  // namespace
}  // namespace cairn
