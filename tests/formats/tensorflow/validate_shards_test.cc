// validate_shards_test.cc -- what must be true of shards: TensorFlow's checks in its words, and
// what parts must be.
#include "tests/formats/tensorflow/sharding_support.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::kTask0;
using testing::kTask1;
using testing::shardable;

const std::string kStart = "After executing the checkpoint sharding callback, ";

struct Put {
  std::size_t shard;
  std::string key, spec;
  ShardTensor tensor;
};

std::function<void()> validating(std::vector<ShardableTensor> tensors, std::vector<Put> puts) {
  return [tensors = std::move(tensors), puts = std::move(puts)] {
    std::vector<Shard> shards;
    for (const Put& put : puts) {
      if (put.shard >= shards.size()) shards.resize(put.shard + 1);
      shards[put.shard][put.key][put.spec] = put.tensor;
    }
    validate_shards(shards, tensors, "Mine.");
  };
}

TEST(ValidateShards, TakesWhatIsWhole) {
  const ShardableTensor a = shardable("a", DType::kFloat32, {2}),
                        b = shardable("b", DType::kInt8, {}),
                        e = shardable("e", DType::kInt8, {0, 2});
  const ShardableTensor s0 = shardable("s", DType::kInt8, {2}, "4 0,2"),
                        s1 = shardable("s", DType::kInt8, {2}, "4 2,2");
  validating({a, b, e, s0, s1}, {{1, "a", " ", a.tensor},
                                 {0, "b", "", b.tensor},
                                 {0, "e", "", e.tensor},
                                 {0, "s", "4 0,2", s0.tensor},
                                 {2, "s", "4 2,2", s1.tensor}})();
  validating({}, {})();
}

TEST(ValidateShards, FailsInTensorFlowsWords) {
  const ShardableTensor a = shardable("a", DType::kFloat32, {2}, "", kTask0),
                        b = shardable("b", DType::kFloat32, {2, 1}, "", kTask0);
  const ShardableTensor c = shardable("c", DType::kInt32, {2}, "", kTask0),
                        d = shardable("d", DType::kFloat32, {2}, "", kTask1);
  const std::string at_a = "\n  callback_description: Mine.\n  checkpoint_key: a\n  slice_spec: \n";
  EXPECT_THAT(
      validating({a}, {{0, "a", "", a.tensor}, {1, "a", "", a.tensor}}),
      FailsWith(
          Code::kFailedPrecondition,
          kStart +
              "multiple tensors with the same checkpoint key and slice spec were found:" + at_a));
  EXPECT_THAT(
      validating({b}, {{0, "a", "", a.tensor}}),
      FailsWith(
          Code::kFailedPrecondition,
          kStart +
              "a tensor not originally in the object graph was found in the checkpoint shards:" +
              at_a));
  EXPECT_THAT(validating({a}, {{0, "a", "", b.tensor}}),
              FailsWith(Code::kFailedPrecondition,
                        kStart + "a tensor was found with an altered shape:" + at_a +
                            "  original tensor_shape: (2,)\n  new tensor_shape: (2, 1)\n"));
  EXPECT_THAT(validating({a}, {{0, "a", "", c.tensor}}),
              FailsWith(Code::kFailedPrecondition,
                        kStart + "a tensor was found with an altered dtype:" + at_a +
                            "  original tensor_dtype: <dtype: 'float32'>\n  new tensor_dtype: "
                            "<dtype: 'int32'>\n"));
  EXPECT_THAT(validating({a}, {{0, "a", "", d.tensor}}),
              FailsWith(Code::kFailedPrecondition,
                        kStart + "a tensor was found with an altered task:" + at_a +
                            "  original tensor_task: 0\n  new tensor_task: 1\n"));
  EXPECT_THAT(
      validating({a, d}, {{0, "a", "", a.tensor}, {0, "d", "", d.tensor}}),
      FailsWith(Code::kFailedPrecondition,
                kStart + "tensors with different tasks were found in the same shard:\n  "
                         "callback_description: Mine.\n"
                         "  tensor #1:    checkpoint_key: a\n    slice_spec: \n    task: 0\n"
                         "  tensor #2:    checkpoint_key: d\n    slice_spec: \n    task: 1\n"));
  EXPECT_THAT(validating({a, b}, {{0, "b", "", b.tensor}}),
              FailsWith(Code::kFailedPrecondition,
                        kStart + "tensors in the object graph were not found in the checkpoint "
                                 "shards:\n  callback_description: Mine.\n"
                                 "  tensor:\n    checkpoint_key: a\n    slice_spec: {'': "
                                 "<tf.Tensor 'a' shape=(2,) dtype=float32>}\n"));
}

TEST(ValidateShards, APartMustBeWhatItsSpecSays) {
  const ShardableTensor a = shardable("a", DType::kInt8, {4}),
                        b = shardable("b", DType::kInt8, {4});
  const ShardTensor first = a.tensor.slice({0}, {2}), second = a.tensor.slice({2}, {2});
  validating({a}, {{0, "a", "4 2,2", second}, {1, "a", "4 0,2", first}})();
  validating({a}, {{0, "a", "4 0,4", a.tensor}})();
  const auto fails = [](const std::string& what) {
    return FailsWith(Code::kFailedPrecondition, kStart + what);
  };
  EXPECT_THAT(validating({a}, {{0, "a", "4 0,2", second}, {0, "a", "4 2,2", first}}),
              fails("a part was found under the slice spec of another:"));
  EXPECT_THAT(validating({a}, {{0, "a", "4 0,3", first}}),
              fails("a tensor was found with an altered shape:"));
  EXPECT_THAT(validating({a}, {{0, "a", "5 0,2", first}}),
              fails("a part was found that is not in its tensor:"));
  EXPECT_THAT(validating({a, b}, {{0, "a", "4 0,2", b.tensor.slice({0}, {2})}}),
              fails("a tensor was found that is not part of one with its checkpoint key:"));
  EXPECT_THAT(validating({a}, {{0, "a", "rubbish", first}}),
              FailsWith(Code::kInvalidArgument, "slice of a: Need least two elements"));
  EXPECT_THAT(validating({a, b}, {{0, "a", "", b.tensor}, {0, "b", "", a.tensor}}),
              fails("another tensor was found in the place of one of the same shape:\n  "
                    "callback_description: Mine.\n  checkpoint_key: a"));
  EXPECT_THAT(validating({a}, {{0, "a", "", ShardTensor()}}),
              fails("there is no tensor under a key of the checkpoint shards:"));
}

TEST(ValidateShards, OneTensorMayHaveTwoKeys) {
  const ShardableTensor a = shardable("a", DType::kInt8, {4});
  ShardableTensor b = a;
  b.checkpoint_key = "b";
  const ShardTensor first = a.tensor.slice({0}, {2}), second = a.tensor.slice({2}, {2});
  validating({a, b}, {{0, "a", "4 0,2", first},
                      {0, "b", "4 0,2", first},
                      {1, "b", "4 2,2", second},
                      {1, "a", "4 2,2", second}})();
}

// covers: sharding.validate_shards
TEST(ValidateShards, PartsMustBeAllOfTheTensor) {
  const ShardableTensor a = shardable("a", DType::kInt8, {4, 3});
  const auto part = [&](std::size_t shard, std::int64_t row, std::int64_t rows) {
    const Box box{{row, 0}, {rows, 3}};
    return Put{shard, "a", slice_spec_text(a.shape(), box), a.tensor.slice(box.origin, box.shape)};
  };
  EXPECT_THAT(
      validating({a}, {part(0, 0, 1), part(1, 3, 1)}),
      FailsWith(Code::kFailedPrecondition,
                "a part of a tensor in the object graph was not found in the checkpoint shards:\n"
                "  callback_description: Mine.\n  checkpoint_key: a\n  slice_spec: \n  first "
                "missing element: (1, 0)\n"));
  EXPECT_THAT(validating({a}, {part(0, 0, 3), part(1, 2, 2)}),
              FailsWith(Code::kFailedPrecondition,
                        "parts of a tensor were found that overlap:\n  callback_description: "
                        "Mine.\n  checkpoint_key: a\n"
                        "  slice_spec: 4 3 0,3:0,3\n  other slice_spec: 4 3 2,2:0,3\n"));
  EXPECT_THAT(validating({a}, {part(0, 0, 4), {1, "a", "", a.tensor}}),
              FailsWith(Code::kFailedPrecondition, "was found both whole and in parts"));
}

TEST(ValidateShards, PartsOfASliceLieInTheWhole) {
  const ShardableTensor a = shardable("a", DType::kInt8, {2}, "8 4,2"),
                        b = shardable("a", DType::kInt8, {2}, "8 6,2");
  validating({a, b}, {{0, "a", "8 4,1", a.tensor.slice({0}, {1})},
                      {0, "a", "8 5,1", a.tensor.slice({1}, {1})},
                      {0, "a", "8 6,2", b.tensor}})();
  EXPECT_THAT(validating({a, b}, {{0, "a", "8 6,1", a.tensor.slice({0}, {1})}}),
              FailsWith(Code::kFailedPrecondition,
                        "not in its tensor:\n  callback_description: Mine.\n  checkpoint_key: a\n  "
                        "slice_spec: 8 6,1\n"
                        "  original tensor_shape: (2,)\n  original slice_spec: 8 4,2\n"));
}

}  // namespace
}  // namespace cairn
