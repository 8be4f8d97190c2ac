// single_replica.h -- a small model in replicas of two processes with two devices each, and what
// each process must get of it.
#pragma once

#include <cairn/array/box.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/handlers.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/same_bytes.h"

namespace cairn::testing {

inline Array whole_numbers(DType dtype, Shape shape) {
  Array array = Array::allocate(dtype, std::move(shape));
  for (std::size_t i = 0; i < array.bytes().size(); ++i)
    array.mutable_view().data[i] = static_cast<std::byte>(i * 37 % 121);
  return array;
}

class Replicated {
 public:
  // A mesh of (2, replicas, 2) devices: replica r is those of processes 2r and 2r + 1, each of
  // which holds one half of the first axis.
  explicit Replicated(std::size_t replicas, bool with_text = false) : with_text_(with_text) {
    mesh_.shape = {2, static_cast<std::int64_t>(replicas), 2};
    mesh_.axis_names = {"x", "replica", "y"};
    mesh_.axis_types.assign(3, AxisType::kAuto);
    std::vector<std::int64_t> ids;
    for (std::int64_t x = 0; x < 2; ++x)
      for (std::int64_t r = 0; r < static_cast<std::int64_t>(replicas); ++r)
        for (std::int64_t y = 0; y < 2; ++y) ids.push_back(4 * r + 2 * x + y);
    mesh_.device_ids = std::move(ids);
    add("w", whole_numbers(DType::kInt32, {64, 64}), {{"x"}, {"y"}});
    add("bias", whole_numbers(DType::kFloat32, {512}), {{"y"}});
    add("scale", whole_numbers(DType::kBfloat16, {3, 700}), {});
    add("long", whole_numbers(DType::kInt8, {4000}), {{"x", "y"}});
  }

  [[nodiscard]] const Array& array(const std::string& name) const { return arrays_.at(name).first; }
  [[nodiscard]] const NamedSharding& sharding(const std::string& name) const {
    return arrays_.at(name).second;
  }
  [[nodiscard]] const auto& arrays() const { return arrays_; }
  [[nodiscard]] std::vector<std::int64_t> devices_of(std::size_t process) const {
    return {static_cast<std::int64_t>(2 * process), static_cast<std::int64_t>(2 * process + 1)};
  }

  [[nodiscard]] Tree tree() const {
    Tree::Dict out;
    for (const auto& [name, of] : arrays_)
      out.emplace_back(name, CustomLeaf::of(ShardedArray::from_array(of.first, of.second)));
    if (with_text_) {
      out.emplace_back("host", std::int64_t{7});
      out.emplace_back("text", std::string("a text"));
    }
    return Tree(std::move(out));
  }
  [[nodiscard]] Tree args() const {
    Tree::Dict out;
    for (const auto& [name, of] : arrays_) {
      SingleReplicaArrayRestoreArgs args;
      args.sharding = of.second;
      args.global_shape = of.first.shape();
      args.dtype = of.first.dtype();
      out.emplace_back(name, CustomLeaf::of(args));
    }
    if (with_text_)
      for (const char* name : {"host", "text"}) out.emplace_back(name, Tree());
    return Tree(std::move(out));
  }
  // Of one process; replica `primary` reads.
  [[nodiscard]] PyTreeCheckpointHandlerOptions options(const std::shared_ptr<Coordinator>& job,
                                                       std::size_t primary) const {
    SingleReplicaArrayHandler::Options handler;
    handler.replica_axis_index = 1;
    handler.primary_replica_id = static_cast<std::int64_t>(primary);
    handler.broadcast_memory_limit_bytes = 3000;
    auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
    registry->add(typeid(ShardedArray), std::make_shared<SingleReplicaArrayHandler>(handler),
                  {.accepts = nullptr, .override_existing = true});
    PyTreeCheckpointHandlerOptions options;
    options.type_handler_registry = registry;
    options.resources.threads = 1;
    options.multiprocessing_options.coordinator = job;
    options.multiprocessing_options.local_devices = devices_of(job->process_index());
    options.multiprocessing_options.timeout = options.multiprocessing_options.write_timeout =
        std::chrono::seconds(60);
    return options;
  }

 private:
  void add(const std::string& name, Array array, PartitionSpec spec) {
    arrays_.emplace(name, std::pair(std::move(array), NamedSharding{mesh_, std::move(spec)}));
  }

  bool with_text_;
  Mesh mesh_;
  std::map<std::string, std::pair<Array, NamedSharding>> arrays_;
};

// Whether a process has its two devices' shards of every array, and no others.
inline void expect_shards(const Tree& restored, const Replicated& model, std::size_t process) {
  const std::vector<std::int64_t> devices = model.devices_of(process);
  for (const auto& [name, of] : model.arrays()) {
    SCOPED_TRACE(name);
    const Tree* leaf = restored.find(name);
    const auto* array = leaf == nullptr ? nullptr : leaf->custom<ShardedArray>();
    ASSERT_NE(array, nullptr);
    EXPECT_EQ(std::get<NamedSharding>(array->sharding), of.second);
    const ShardedArray expected = ShardedArray::from_array(of.first, of.second, devices);
    ASSERT_EQ(array->shards.size(), expected.shards.size());
    for (std::size_t i = 0; i < expected.shards.size(); ++i) {
      EXPECT_EQ(array->shards[i].device_id, expected.shards[i].device_id);
      EXPECT_EQ(array->shards[i].box, expected.shards[i].box);
      EXPECT_EQ(array->shards[i].replica, expected.shards[i].replica);
      const auto copied = [dtype = array->dtype](const ArrayShard& shard) {
        Array out = Array::allocate(dtype, shard.box.shape);
        copy_elements(std::get<HostMemory>(shard.source).view, out.mutable_view());
        return out;
      };
      EXPECT_TRUE(same_array(copied(array->shards[i]), copied(expected.shards[i])));
    }
  }
}

}  // namespace cairn::testing
