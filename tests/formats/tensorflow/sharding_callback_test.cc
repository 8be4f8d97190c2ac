// sharding_callback_test.cc -- tensors, shards and callbacks, and what saving does with them.
#include "tests/formats/tensorflow/sharding_support.h"
#include "tests/support/matchers.h"
#include "tests/support/sanitizers.h"

#include <unordered_set>

namespace cairn {
namespace {

using testing::FailsWith;
using testing::kTask0;
using testing::kTask1;
using testing::shardable;
using testing::shards_text;

class Parameters : public ShardingCallback {
 public:
  using Kwargs = std::vector<std::pair<std::string, Value>>;
  explicit Parameters(Kwargs kwargs, std::string text = "d")
      : kwargs_(std::move(kwargs)), text_(std::move(text)) {}
  [[nodiscard]] std::string description() const override { return text_; }
  [[nodiscard]] std::vector<Shard> operator()(
      std::span<const ShardableTensor> /*tensors*/) const override {
    return {};
  }
  [[nodiscard]] Kwargs kwargs() const override { return kwargs_; }

 private:
  Kwargs kwargs_;
  std::string text_;
};

TEST(OrderedMap, KeepsTheOrderOfManyKeys) {
  OrderedMap<int> map;
  for (int i = 0; i < 5000; ++i) map[std::to_string(i * 7919 % 5000)] = i;
  for (int i = 0; i < 5000; ++i) map[std::to_string(i)] += 0;
  ASSERT_EQ(map.size(), 5000U);
  int at = 0;
  for (const auto& [key, value] : map) {
    EXPECT_EQ(value, at);
    EXPECT_EQ(key, std::to_string(at++ * 7919 % 5000));
    EXPECT_EQ(map.find(key), &value);
  }
  EXPECT_EQ(map.find("5000"), nullptr);
  const OrderedMap<int> copy = map;
  EXPECT_EQ(copy, map);
}

TEST(ShardTensor, Slices) {
  const ShardableTensor x = shardable("x", DType::kInt8, {4, 3});
  const ShardTensor rows = x.tensor.slice({1, 0}, {2, 3});
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(*rows.slice({1, 1}, {1, 2}).part(), (Box{{2, 1}, {1, 2}}));
  EXPECT_EQ(x.tensor.slice({0, 0}, {4, 3}), x.tensor);
  EXPECT_EQ(x.tensor.slice({0, 0}, {4, 3}).part(), nullptr);
  EXPECT_THAT([&] { (void)rows.slice({1, 0}, {2, 3}); }, FailsWith(Code::kOutOfRange));
  EXPECT_THAT([&] { (void)rows.slice({0}, {1}); }, FailsWith(Code::kInvalidArgument));
}

TEST(ShardableTensor, HashAndEquality) {
  const ShardableTensor x = shardable("x", DType::kInt8, {4});
  ShardableTensor other = x;
  EXPECT_EQ(other, x);
  other.slice_spec = "8 0,4";
  EXPECT_NE(other, x);
  EXPECT_EQ(other.hash(), x.hash()) << "of the name, the type, the device and the key alone";
  for (const ShardableTensor& different :
       {shardable("y", DType::kInt8, {4}), shardable("x", DType::kUint8, {4}),
        shardable("x", DType::kInt8, {4}, "", kTask0)})
    EXPECT_NE(different.hash(), x.hash());
}

TEST(ShardingCallback, HashAndEquality) {
  const MaxShardSizePolicy five(5), again(5), six(6);
  EXPECT_EQ(five.hash(), again.hash());
  EXPECT_NE(five.hash(), six.hash());
  EXPECT_TRUE(five == five);
  EXPECT_FALSE(five == again);
  const auto hash = [](Parameters::Kwargs kwargs, const char* text = "d") {
    return Parameters(std::move(kwargs), text).hash();
  };
  EXPECT_EQ(hash({{"a", std::int64_t{1}}, {"b", std::int64_t{2}}}),
            hash({{"b", std::int64_t{2}}, {"a", std::int64_t{1}}}));
  EXPECT_EQ(hash({{"a", std::int64_t{1}}, {"b", std::int64_t{2}}}),
            hash({{"a", std::int64_t{2}}, {"b", std::int64_t{1}}}))
      << "as in TensorFlow";
  EXPECT_EQ(hash({{"a", std::int64_t{1}}}), hash({{"a", 1.0}}));
  EXPECT_EQ(hash({{"a", std::int64_t{1}}}), hash({{"a", true}}));
  const std::unordered_set<std::size_t> all = {hash({}),
                                               hash({}, "e"),
                                               hash({{"a", {}}}),
                                               hash({{"b", {}}}),
                                               hash({{"a", 0.5}}),
                                               hash({{"a", 1e300}}),
                                               hash({{"a", false}}),
                                               hash({{"a", std::string("x")}}),
                                               hash({{"b", 0.5}}),
                                               hash({{"a", std::int64_t{-1}}})};
  EXPECT_EQ(all.size(), 10U);
}

TEST(ShardByTask, OneShardATask) {
  const std::vector<ShardableTensor> tensors = {
      shardable("a", DType::kInt8, {4}, "", kTask1), shardable("b", DType::kInt8, {4}, "", kTask0),
      shardable("c", DType::kInt8, {2}, "4 0,2", "/job:worker/replica:0/task:1/device:GPU:3"),
      shardable("d", DType::kInt8, {}, ""), shardable("c", DType::kInt8, {2}, "4 2,2", kTask1)};
  EXPECT_EQ(shards_text(make_shards(ShardByTaskPolicy(), tensors)),
            "a[] c[4 0,2, 4 2,2] | b[] | d[]");
  EXPECT_EQ(shards_text(ShardByTaskPolicy()(tensors)), "a[] b[] c[4 0,2, 4 2,2] d[]")
      << "a callback is given the tensors of one task";
  EXPECT_EQ(ShardByTaskPolicy().description(),
            "Split tensors into shards based on their device spec task.");
  EXPECT_EQ(MaxShardSizePolicy(4).description(),
            "Split tensors into shards with a max shard size.");
  EXPECT_EQ(make_shards(ShardByTaskPolicy(), {}).size(), 1U);
}

TEST(MakeShards, RefusesWhatCannotBeSaved) {
  const auto make = [](std::vector<ShardableTensor> tensors) {
    return [tensors = std::move(tensors)] { make_shards(ShardByTaskPolicy(), tensors); };
  };
  EXPECT_THAT(make({shardable("a", DType::kInt8, {4}), shardable("a", DType::kInt8, {4})}),
              FailsWith(Code::kInvalidArgument, "checkpoint key \"a\""));
  EXPECT_THAT(
      make({shardable("a", DType::kInt8, {4}, "", "/gpo:1")}),
      FailsWith(
          Code::kInvalidArgument,
          "a: Unknown attribute 'gpo' is encountered while parsing the device spec: '/gpo:1'."));
  EXPECT_THAT(make({ShardableTensor{.tensor = {}, .checkpoint_key = "a", .slice_spec = ""}}),
              FailsWith(Code::kInvalidArgument, "there is no tensor for the key \"a\""));
  const std::vector<ShardableTensor> one = {shardable("a", DType::kInt8, {4})};
  EXPECT_THAT([&] { make_shards(Parameters({}, "Loses all."), one); },
              FailsWith(Code::kFailedPrecondition, "callback_description: Loses all.\n"));
}

TEST(MakeShards, AHundredThousandTensors) {
  std::vector<ShardableTensor> tensors;
  constexpr int kTensors = 100'000 / testing::kFewer;
  for (int i = 0; i < kTensors; ++i)
    tensors.push_back(
        shardable("model/layer" + std::to_string(i) + "/kernel/.ATTRIBUTES/VARIABLE_VALUE",
                  DType::kFloat32, {16, 16}, "", i % 2 == 0 ? kTask0 : kTask1));
  EXPECT_EQ(make_shards(ShardByTaskPolicy(), tensors).size(), 2U);
  EXPECT_EQ(make_shards(MaxShardSizePolicy(1024 * 1000), tensors).size(),
            std::size_t{kTensors / 1000});
}

}  // namespace
}  // namespace cairn
