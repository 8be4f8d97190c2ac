// max_shard_size_test.cc -- tensors cut as TensorFlow cuts them, and well where TensorFlow does
// not.
#include "tests/formats/tensorflow/sharding_support.h"
#include "tests/support/matchers.h"
#include "tests/support/sanitizers.h"

#include <cairn/array/box.h>

#include <limits>

namespace cairn {
namespace {

using testing::FailsWith;
using testing::kGraph;
using testing::shardable;
using testing::shards_text;
using testing::strings;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

std::string cut(const std::vector<ShardableTensor>& tensors, std::int64_t max,
                bool like_tensorflow = false, std::vector<std::string>* warnings = nullptr) {
  MaxShardSizeOptions options{.like_tensorflow = like_tensorflow};
  if (warnings != nullptr)
    options.warn = [warnings](const std::string& message) { warnings->push_back(message); };
  const MaxShardSizePolicy policy(max, options);
  const std::vector<Shard> shards = policy(tensors);
  if (!like_tensorflow) validate_shards(shards, tensors, policy.description());
  return shards_text(shards);
}

std::vector<ShardableTensor> four_tensors() {
  return {shardable("v0", DType::kInt32, {3, 2}), shardable("v1", DType::kFloat32, {3, 2, 1}),
          strings("v2", {}, 11, 11), strings(std::string(kGraph), {}, 231, 231)};
}

struct Example {
  std::vector<ShardableTensor> tensors;
  std::int64_t max;
  std::string shards;
};

TEST(MaxShardSize, CutsTheWorkedExamplesAsTensorFlowDoes) {
  const std::string by_rows =
      "v0[3 2 0,1:0,2] | v0[3 2 1,1:0,2] | v0[3 2 2,1:0,2] | v1[3 2 1 0,1:0,2:0,1] | v1[3 2 1 "
      "1,1:0,2:0,1] | v1[3 2 1 2,1:0,2:0,1] graph[] "
      "| v2[]";
  const std::vector<Example> examples = {
      {four_tensors(), 8, by_rows},
      {four_tensors(), 10, by_rows},
      {four_tensors(), 12,
       "v0[3 2 0,3:0,1] | v0[3 2 0,3:1,1] | v1[3 2 1 0,3:0,1:0,1] | v1[3 2 1 0,3:1,1:0,1] | v2[] "
       "graph[]"},
      {four_tensors(), 16,
       "v0[3 2 0,2:0,2] | v0[3 2 2,1:0,2] v1[3 2 1 0,1:0,2:0,1] | v1[3 2 1 1,2:0,2:0,1] | v2[] "
       "graph[]"},
      {four_tensors(), 1000, "v0[3 2 0,3:0,2] v1[3 2 1 0,3:0,2:0,1] v2[] graph[]"},
      {{shardable("x", DType::kFloat32, {4, 4})},
       24,
       "x[4 4 0,1:0,4] | x[4 4 1,3:0,2] | x[4 4 1,3:2,2]"},
      {{shardable("x", DType::kFloat32, {4, 4})},
       20,
       "x[4 4 0,1:0,4] | x[4 4 1,1:0,4] | x[4 4 2,1:0,4, 4 4 3,1:0,1] | x[4 4 3,1:1,3]"},
      {{shardable("x", DType::kFloat32, {7, 5})},
       64,
       "x[7 5 0,3:0,5] | x[7 5 3,2:0,5, 7 5 5,1:0,5, 7 5 6,1:0,1] | x[7 5 6,1:1,4]"},
      {{shardable("x", DType::kFloat32, {2, 3}, "2 5 0,2:1,3")},
       8,
       "x[2 5 0,2:1,1] | x[2 5 0,1:2,2] | x[2 5 1,1:2,2]"},
      {{shardable("x", DType::kFloat64, {9}), shardable("y", DType::kFloat64, {}),
        strings("z", {}, 90, 90), strings("g", {}, 120, 120),
        strings(std::string(kGraph), {}, 231, 231)},
       100,
       "x[9 0,9] y[] | z[] graph[] | g[]"}};
  for (const Example& example : examples) {
    EXPECT_EQ(cut(example.tensors, example.max, true), example.shards) << example.max;
    EXPECT_EQ(cut(example.tensors, example.max), example.shards) << example.max;
  }
  EXPECT_EQ(cut({strings("s", {4}, 16, 10)}, 10, true),
            "s[4 0,1] | s[4 1,1] | s[4 2,1] | s[4 3,1]");
}

TEST(MaxShardSize, PartsAreOfTheTensorThatIsSaved) {
  const ShardableTensor tensor = shardable("x", DType::kFloat32, {2, 3}, "9 5 4,2:1,3");
  const std::vector<Shard> shards = MaxShardSizePolicy(8)({&tensor, 1});
  ASSERT_EQ(shards.size(), 3U);
  const ShardTensor* part = shards[2].find("x")->find("9 5 5,1:2,2");
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(*part->part(), (Box{{1, 1}, {1, 2}}));
  EXPECT_EQ(&part->spec(), &tensor.tensor.spec());
}

// ---- where TensorFlow never ends ----
TEST(MaxShardSize, CutsAlongSeveralAxesWhereOneIsNotEnough) {
  EXPECT_EQ(cut({shardable("x", DType::kFloat32, {3, 2})}, 4),
            "x[3 2 0,1:0,1] | x[3 2 0,1:1,1] | x[3 2 1,1:0,1] | x[3 2 1,1:1,1] | x[3 2 2,1:0,1] | "
            "x[3 2 2,1:1,1]");
  EXPECT_EQ(cut({shardable("x", DType::kInt8, {3, 4, 2})}, 4),
            "x[3 4 2 0,2:0,1:0,2] | x[3 4 2 2,1:0,1:0,2] | x[3 4 2 0,1:1,2:0,2] | x[3 4 2 "
            "0,1:3,1:0,2] | x[3 4 2 1,2:1,1:0,2] | "
            "x[3 4 2 1,1:2,2:0,2] | x[3 4 2 2,1:2,2:0,2]");
}

TEST(MaxShardSize, AnElementThatIsTooLargeHasAShardOfItsOwn) {
  std::vector<std::string> warnings;
  EXPECT_EQ(cut({shardable("a", DType::kInt8, {1}), shardable("x", DType::kFloat32, {2}),
                 shardable("b", DType::kInt8, {1})},
                2, false, &warnings),
            "a[1 0,1] b[1 0,1] | x[2 0,1] | x[2 1,1]");
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[0],
            "Tensor x's minimum slice 2 0,1 has size 4 bytes and cannot be partitioned into a "
            "shard of max shard size 2 bytes. It will be "
            "added as an "
            "individual shard that exceeds the max shard size.");
}

TEST(MaxShardSize, LikeTensorFlowItSaysWhereTensorFlowWouldNeverEnd) {
  for (const ShardableTensor& tensor :
       {shardable("x", DType::kFloat32, {4}), shardable("x", DType::kFloat32, {3, 2}),
        strings("x", {3}, 506, 500)})
    EXPECT_THAT([&] { cut({tensor}, 3, true); },
                FailsWith(Code::kInvalidArgument, "x: TensorFlow's policy would never end"));
  EXPECT_THAT([&] { cut({shardable("x", DType::kInt8, {1})}, 0, true); },
              FailsWith(Code::kInvalidArgument, "would never end"));
}

// ---- where it fails, or what it makes is lost ----
TEST(MaxShardSize, TensorsWithoutElementsAreKept) {
  const std::vector<ShardableTensor> tensors = {
      shardable("e", DType::kFloat32, {0, 3}), shardable("x", DType::kFloat32, {1}),
      strings("s", {2, 0}, 0, 0), strings("t", {0}, 0, 0)};
  EXPECT_EQ(cut(tensors, 4), "e[] x[1 0,1] s[] t[]");
  EXPECT_EQ(cut({tensors[0], tensors[1]}, 4, true), "x[1 0,1]");
  for (const std::size_t i : {2, 3})
    EXPECT_THAT([&] { cut({tensors[i]}, 4, true); },
                FailsWith(Code::kUnimplemented, "TensorFlow's policy fails"));
}

TEST(MaxShardSize, KeepsWholeWhatTensorFlowCannotMerge) {
  const ShardableTensor a = shardable("a", DType::kFloat32, {2});
  for (const std::string type : {"float16", "uint16", "uint32", "uint64", "qint16", "float8_e4m3fn",
                                 "int2", "float4_e2m1fn"})
    EXPECT_EQ(cut({a, shardable("x", TensorType(type, 2), {6, 1}),
                   a.shape().empty() ? a : shardable("b", DType::kInt8, {4})},
                  16),
              "a[2 0,2] | x[6 1 0,6:0,1] b[4 0,4]")
        << type;
  EXPECT_EQ(cut({a, strings("s", {2, 2}, 12, 4)}, 16), "a[2 0,2] | s[2 2 0,2:0,2]");
  std::vector<std::string> warnings;
  EXPECT_EQ(cut({a, shardable("h", DType::kFloat16, {20})}, 16, false, &warnings),
            "a[2 0,2] | h[20 0,20]");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("Tensor h's minimum slice 20 0,20 has size 40 bytes"),
            std::string::npos);
  EXPECT_EQ(cut({shardable("h", DType::kFloat16, {20})}, 16, true),
            "h[20 0,7, 20 7,1] | h[20 8,6, 20 14,2] | h[20 16,4]");
}

TEST(MaxShardSize, FourBitsAreCutThoughTensorFlowFails) {
  EXPECT_EQ(cut({shardable("x", DType::kInt4, {4})}, 2), "x[4 0,2] | x[4 2,2]");
  EXPECT_THAT(
      [&] { cut({shardable("x", DType::kInt4, {4})}, 200, true); },
      FailsWith(Code::kUnimplemented,
                "x: TensorFlow's policy fails: it cannot take parts of tensors of type int4"));
  EXPECT_THAT(
      [&] {
        cut({strings("x", {2, 2}, 4, 1)}, 200, true);
      },
      FailsWith(Code::kUnimplemented, "strings of rank 2"));
}

TEST(MaxShardSize, StringsOfNoKnownSizeCountAsNothing) {
  std::vector<std::string> warnings;
  const ShardableTensor s = shardable("s", TensorType("string", 0), {3}),
                        t = shardable("t", TensorType("string", 0), {});
  EXPECT_EQ(
      cut({shardable("x", DType::kInt8, {4}), s, t, shardable("v", TensorType("variant", 0), {})},
          4, false, &warnings),
      "x[4 0,4] s[3 0,3] t[] v[]");
  EXPECT_EQ(warnings.size(), 1U);
}

// ---- odd and hostile ----
// covers: sharding.MaxShardSizePolicy
// note: `max_shard_size` below 1 is an error.
TEST(MaxShardSize, Limits) {
  for (const std::int64_t max :
       {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()})
    EXPECT_THAT([&] { (void)MaxShardSizePolicy(max); },
                FailsWith(Code::kInvalidArgument, "must be positive"));
  EXPECT_THAT([&] { (void)MaxShardSizePolicy(-1, {.like_tensorflow = true}); },
              FailsWith(Code::kInvalidArgument, "must be positive"));
  EXPECT_EQ(cut({shardable("a", DType::kInt8, {}), shardable("b", DType::kInt8, {}),
                 strings(std::string(kGraph), {}, 5, 5)},
                0, true),
            "graph[] | a[] | b[]");
  EXPECT_EQ(cut({}, 1), "");
  EXPECT_EQ(cut({strings(std::string(kGraph), {}, 5, 5)}, 1), "graph[]");
}

TEST(MaxShardSize, SizesAtTheEdgeOfTheRange) {
  EXPECT_EQ(cut({shardable("x", DType::kInt8, {kLargest})}, kLargest),
            "x[9223372036854775807 0,9223372036854775807]");
  EXPECT_EQ(make_shards(MaxShardSizePolicy(kLargest - 1),
                        std::vector{shardable("x", DType::kInt8, {kLargest})})
                .size(),
            2U);
  EXPECT_EQ(
      cut({shardable("x", DType::kInt8, {kLargest}), shardable("y", DType::kInt8, {kLargest})},
          kLargest),
      "x[9223372036854775807 0,9223372036854775807] | y[9223372036854775807 "
      "0,9223372036854775807]");
  EXPECT_THAT([&] { cut({shardable("x", DType::kInt16, {kLargest})}, kLargest); },
              FailsWith(Code::kOutOfRange, "x: "));
  EXPECT_THAT(
      [&] {
        cut({shardable("x", DType::kInt8, {kLargest, 3})}, kLargest);
      },
      FailsWith(Code::kOutOfRange, "x: "));
  EXPECT_THAT(
      [&] { cut({strings("x", {3}, std::numeric_limits<std::uint64_t>::max(), 3)}, kLargest); },
      FailsWith(Code::kOutOfRange, "x: "));
  EXPECT_THAT([&] { cut({strings("x", {kLargest}, 100, std::uint64_t{1} << 63U)}, 10, true); },
              FailsWith(Code::kOutOfRange, "x: "));
}

// What TensorFlow would reckon with for all of them, as long as the longest, is no number of bytes.
TEST(MaxShardSize, StringsOfWhichOneIsHuge) {
  constexpr std::int64_t kMany = std::int64_t{1} << 32U;
  EXPECT_THAT(
      [&] {
        cut({strings("x", {kMany, 1}, std::uint64_t{1} << 33U, std::uint64_t{1} << 32U)}, 1 << 20,
            true);
      },
      FailsWith(Code::kOutOfRange, "x: "));
}

TEST(MaxShardSize, AMillionShardsAreTooMany) {
  EXPECT_THAT([&] { cut({shardable("x", DType::kInt8, {kLargest})}, 1); },
              FailsWith(Code::kInvalidArgument, "x: max_shard_size 1 makes more"));
  EXPECT_THAT(
      [&] {
        cut({shardable("x", DType::kInt8, {1 << 30, 1 << 30})}, 1000);
      },
      FailsWith(Code::kInvalidArgument, "shards; choose a larger size"));
}

TEST(MaxShardSize, Ranks) {
  Shape shape(254, 1);
  shape[200] = 2;
  EXPECT_EQ(MaxShardSizePolicy(1)(std::vector{shardable("x", DType::kInt8, shape)}).size(), 2U);
  shape.resize(100'000, 1);
  EXPECT_EQ(MaxShardSizePolicy(2)(std::vector{shardable("x", DType::kInt8, shape)}).size(), 1U);
  EXPECT_THAT([&] { cut({shardable("x", DType::kInt8, shape)}, 1); },
              FailsWith(Code::kInvalidArgument, "x: a tensor of rank 100000 cannot be cut"));
}

TEST(MaxShardSize, RefusesASliceSpecThatIsNotTheTensors) {
  EXPECT_THAT([&] { cut({shardable("x", DType::kInt8, {2}, "4 0,3")}, 1); },
              FailsWith(Code::kInvalidArgument, "x: the slice spec \"4 0,3\""));
  EXPECT_THAT([&] { cut({shardable("x", DType::kInt8, {2}, "4")}, 1); },
              FailsWith(Code::kInvalidArgument, "x: Need least two elements"));
  EXPECT_THAT([&] { cut({shardable("x", TensorType("resource", 0), {})}, 1); },
              FailsWith(Code::kInvalidArgument, "x: elements of type resource"));
}

// Would take minutes if it took time as the square of them.
TEST(MaxShardSize, ManyPartsAndManyTensors) {
  constexpr std::int64_t kParts = 200'000 / testing::kFewer;
  const std::vector<ShardableTensor> one = {shardable("x", DType::kInt8, {kParts, 5})};
  const std::vector<Shard> shards = make_shards(MaxShardSizePolicy(5), one);
  EXPECT_EQ(shards.size(), static_cast<std::size_t>(kParts));
  EXPECT_NE(shards.back().find("x")->find(std::to_string(kParts) + " 5 " +
                                          std::to_string(kParts - 1) + ",1:0,5"),
            nullptr);

  std::vector<ShardableTensor> slices;
  for (std::int64_t i = 0; i < 100'000; ++i)
    slices.push_back(
        shardable("x", DType::kInt8, {1, 2}, "1 200000 0,1:" + std::to_string(2 * i) + ",2"));
  EXPECT_EQ(make_shards(MaxShardSizePolicy(200'000), slices).size(), 1U);
  EXPECT_EQ(make_shards(MaxShardSizePolicy(1000), slices).size(), 200U);
}

}  // namespace
}  // namespace cairn
