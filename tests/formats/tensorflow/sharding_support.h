// sharding_support.h -- tensors to be sharded, and shards as a text.
#pragma once

#include <cairn/tensorflow.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::testing {

inline constexpr std::string_view kGraph = "_CHECKPOINTABLE_OBJECT_GRAPH";
inline constexpr const char* kTask0 = "/job:worker/replica:0/task:0/device:CPU:0";
inline constexpr const char* kTask1 = "/job:worker/replica:0/task:1/device:CPU:0";

inline ShardableTensor shardable(std::string key, TensorType dtype, Shape shape,
                                 std::string slice_spec = "", std::string device = "") {
  auto spec = std::make_shared<SaveSpec>();
  spec->name = key;
  spec->dtype = std::move(dtype);
  spec->shape = std::move(shape);
  spec->device = std::move(device);
  return {.tensor = ShardTensor(std::move(spec)),
          .checkpoint_key = std::move(key),
          .slice_spec = std::move(slice_spec)};
}

inline ShardableTensor strings(std::string key, Shape shape, std::uint64_t total,
                               std::uint64_t longest) {
  ShardableTensor tensor = shardable(std::move(key), TensorType("string", 0), std::move(shape));
  tensor.string_bytes = StringBytes{total, longest};
  return tensor;
}

// "a[2 0,1] b[] | a[2 1,1]": shards with their keys, and the slices of each.
inline std::string shards_text(const std::vector<Shard>& shards) {
  std::string text;
  for (const Shard& shard : shards) {
    if (&shard != &shards.front()) text += " |";
    for (const auto& [key, slices] : shard) {
      text += (text.empty() ? "" : " ") + (key == kGraph ? "graph" : key) + "[";
      for (const auto& [spec, tensor] : slices) text += (text.back() == '[' ? "" : ", ") + spec;
      text += "]";
    }
  }
  return text;
}

}  // namespace cairn::testing
