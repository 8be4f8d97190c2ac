// single_replica_test.cc -- SingleReplicaArrayHandler restores: random meshes over random
// processes, every byte where it belongs, read by the primary replica alone; readers that fail,
// hang and go.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "tests/handlers/single_replica_reader.h"
#include "tests/support/forwarding_coordinator.h"
#include "tests/support/matchers.h"
#include "tests/support/same_bytes.h"

namespace cairn {
namespace {

using testing::Asked;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Job;
using testing::kMesh;
using testing::numbers;
using testing::processes_of;
using testing::Reader;
using testing::restore;
using testing::right;
using testing::run_as_processes;
using testing::same_array;
using testing::Stored;
using testing::stored_two;

// What of an array a shard must hold: it is cut off or filled up to `shape`, and converted.
Array expected_shard(const Array& stored, const Shape& shape, DType dtype, const Box& box) {
  Array whole = Array::allocate(stored.dtype(), shape);
  std::memset(whole.mutable_view().data, 0, whole.bytes().size());
  if (const auto both = intersect(Box::whole(shape), Box::whole(stored.shape())))
    copy_elements(subview(stored.view(), *both), subview(whole.mutable_view(), *both));
  Array out = Array::allocate(dtype, box.shape);
  cast_elements(subview(whole.view(), box), out.mutable_view());
  return out;
}

std::size_t below(std::mt19937& random, std::size_t n) { return random() % n; }

class RandomRestore : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Random, RandomRestore, ::testing::Range(0U, 120U));

TEST_P(RandomRestore, EveryByteComesFromThePrimaryReplica) {
  std::mt19937 random(GetParam());
  // A mesh of two or three axes, its devices in any order, whoever holds them: whole replicas or
  // scattered ones.
  Mesh mesh;
  const std::size_t axes = 2 + below(random, 2);
  for (std::size_t a = 0; a < axes; ++a) {
    mesh.shape.push_back(std::int64_t{1} << below(random, 3));
    mesh.axis_names.push_back("axis" + std::to_string(a));
  }
  const std::size_t axis = below(random, axes);
  mesh.shape[axis] = std::int64_t{2} << below(random, 2);
  const std::int64_t replicas = mesh.shape[axis];
  const auto count = static_cast<std::size_t>(element_count(mesh.shape));
  std::vector<std::int64_t> ids(count);
  std::iota(ids.begin(), ids.end(), 100);
  if (below(random, 2) == 0) std::shuffle(ids.begin(), ids.end(), random);
  mesh.device_ids = std::move(ids);
  const std::size_t processes = 1 + below(random, 5);
  const bool scattered = below(random, 3) == 0;
  std::vector<std::vector<std::int64_t>> devices(processes);
  for (std::size_t i = 0; i < count; ++i)
    devices[scattered ? below(random, processes) : i * processes / count].push_back(
        mesh.device_ids[i]);
  const std::int64_t primary =
      static_cast<std::int64_t>(below(random, static_cast<std::size_t>(replicas)));
  SingleReplicaArrayHandler::Options options;
  options.replica_axis_index = static_cast<std::int64_t>(axis) -
                               (below(random, 2) == 0 ? static_cast<std::int64_t>(axes) : 0);
  options.primary_replica_id = primary - (below(random, 2) == 0 ? replicas : 0);
  if (below(random, 3) != 0)
    options.broadcast_memory_limit_bytes = static_cast<std::int64_t>(below(random, 300)) - 10;

  constexpr DType kTypes[] = {DType::kFloat32, DType::kInt8, DType::kBfloat16, DType::kFloat64,
                              DType::kUint16};
  struct Leaf {
    NamedSharding sharding;
    Shape shape;
    DType dtype;
    SingleReplicaArrayRestoreArgs args;  // of who knows least: a reader
  };
  Stored stored;
  std::vector<std::pair<std::string, Leaf>> leaves;
  for (std::size_t i = 1 + below(random, 5); i > 0; --i) {
    const std::string name = "w" + std::to_string(i);
    Leaf leaf{{mesh, {}}, {}, kTypes[below(random, 5)], {}};
    Shape stored_shape;
    std::vector<std::size_t> left;
    for (std::size_t a = 0; a < axes; ++a)
      if (a != axis) left.push_back(a);
    std::shuffle(left.begin(), left.end(), random);
    for (std::size_t d = below(random, 4); d > 0; --d) {
      std::int64_t split = 1;
      auto& entry = leaf.sharding.spec.emplace_back();
      while (!left.empty() && below(random, 2) == 0) {
        entry.push_back(mesh.axis_names[left.back()]);
        split *= mesh.shape[left.back()];
        left.pop_back();
      }
      leaf.shape.push_back(split * static_cast<std::int64_t>(1 + below(random, 4)));
      stored_shape.push_back(leaf.shape.back());
    }
    if (below(random, 3) == 0) {
      leaf.args.strict = false;
      for (std::int64_t& n : stored_shape) n = static_cast<std::int64_t>(1 + below(random, 12));
    }
    const DType stored_dtype = below(random, 3) == 0 ? kTypes[below(random, 5)] : leaf.dtype;
    stored.emplace(name, numbers(stored_dtype, stored_shape, random()));
    leaf.args.sharding = leaf.sharding;
    if (stored_dtype != leaf.dtype) leaf.args.dtype = leaf.dtype;
    if (stored_shape != leaf.shape) leaf.args.global_shape = leaf.shape;
    leaves.emplace_back(name, std::move(leaf));
  }

  std::set<std::int64_t> in_primary;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t inner = element_count(std::span(mesh.shape).subspan(axis + 1));
    if (static_cast<std::int64_t>(i) / inner % replicas == primary)
      in_primary.insert(mesh.device_ids[i]);
  }
  const auto errors = run_as_processes(processes, [&](const Job& job) {
    const auto& mine = devices[job->process_index()];
    const bool reads = std::any_of(mine.begin(), mine.end(),
                                   [&](std::int64_t id) { return in_primary.contains(id); });
    const auto reader = std::make_shared<Reader>(stored, processes_of(job, mine));
    std::vector<std::pair<std::string, AnyRestoreArgs>> wanted;
    for (const auto& [name, leaf] : leaves) {
      SingleReplicaArrayRestoreArgs args = leaf.args;
      if (!reads) {
        args.dtype = leaf.dtype;
        args.shape = leaf.shape;
      }
      wanted.emplace_back(name, args);
    }
    const std::vector<ShardedArray> restored = restore(reader, wanted, options);
    ASSERT_EQ(restored.size(), leaves.size());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Leaf& leaf = leaves[i].second;
      EXPECT_EQ(restored[i].shape, leaf.shape);
      EXPECT_EQ(restored[i].dtype, leaf.dtype);
      EXPECT_EQ(restored[i].random_key_impl, "");
      EXPECT_EQ(std::get<NamedSharding>(restored[i].sharding), leaf.sharding);
      std::size_t shard = 0;
      for (const DeviceBox& device : device_boxes(leaf.sharding, leaf.shape)) {
        if (std::find(mine.begin(), mine.end(), device.device_id) == mine.end()) continue;
        ASSERT_LT(shard, restored[i].shards.size());
        const ArrayShard& got = restored[i].shards[shard++];
        EXPECT_EQ(got.device_id, device.device_id);
        EXPECT_EQ(got.box, device.box);
        EXPECT_EQ(got.replica, device.replica);
        Array values = Array::allocate(leaf.dtype, device.box.shape);
        copy_elements(std::get<HostMemory>(got.source).view, values.mutable_view());
        EXPECT_TRUE(same_array(
            values, expected_shard(stored.at(leaves[i].first), leaf.shape, leaf.dtype, device.box)))
            << leaves[i].first;
      }
      EXPECT_EQ(shard, restored[i].shards.size());
    }
    EXPECT_EQ(reader->looked, reads);
    if (!reads) {
      EXPECT_TRUE(reader->boxes.empty());
    }
    // Only boxes of its devices in the primary replica, each once.
    for (const auto& [name, leaf] : leaves) {
      std::set<std::vector<std::int64_t>> its;
      for (const DeviceBox& device : device_boxes(leaf.sharding, leaf.shape))
        if (in_primary.contains(device.device_id) &&
            std::find(mine.begin(), mine.end(), device.device_id) != mine.end())
          its.insert(device.box.origin);
      const auto times =
          std::count_if(reader->boxes.begin(), reader->boxes.end(),
                        [&, &of = name](const auto& read) { return read.first == of; });
      EXPECT_LE(static_cast<std::size_t>(times), its.size());
      if (!leaf.args.global_shape) {
        EXPECT_EQ(static_cast<std::size_t>(times), its.size());
      }
    }
  });
  for (std::size_t p = 0; p < errors.size(); ++p)
    EXPECT_FALSE(errors[p]) << "process " << p << ": " << errors[p]->message();
}

TEST(SingleReplica, TheSpecOfASingleReplicaShardingCounts) {
  const auto errors = run_as_processes(2, [&](const Job& job) {
    Asked asked = right(job->process_index());
    // Either replica's, on one axis or two; whole on one device.
    for (const NamedSharding& single :
         {NamedSharding{make_mesh({1, 2}, {"r", "m"}, 2), {{}, {"m"}}},
          NamedSharding{make_mesh({2}, {"m"}), {{}, {"m"}}},
          NamedSharding{make_mesh({1, 1}, {"r", "m"}), {{}, {}}}}) {
      asked.args(0).single_replica_sharding = single;
      const auto reader = std::make_shared<Reader>(stored_two(), processes_of(job, *asked.devices));
      const ShardedArray array = restore(reader, {asked.leaves[0]}, {})[0];
      EXPECT_EQ(std::get<NamedSharding>(array.sharding), (NamedSharding{kMesh, single.spec}));
      for (const ArrayShard& shard : array.shards) {
        Array values = Array::allocate(DType::kFloat32, shard.box.shape);
        copy_elements(std::get<HostMemory>(shard.source).view, values.mutable_view());
        EXPECT_TRUE(same_array(
            values, expected_shard(stored_two().at("a"), {4, 2}, DType::kFloat32, shard.box)));
      }
    }
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
}

TEST(SingleReplica, AloneItHoldsAllDevicesOrThoseItSays) {
  SingleReplicaArrayRestoreArgs args;
  args.sharding = NamedSharding{kMesh, {{"m"}}};
  const auto alone = [&](std::optional<std::vector<std::int64_t>> devices, Mesh mesh) {
    args.sharding = NamedSharding{std::move(mesh), {{"m"}}};
    return restore(std::make_shared<Reader>(
                       stored_two(), MultiprocessingOptions{.local_devices = std::move(devices)}),
                   {{"b", args}}, {})[0];
  };
  EXPECT_TRUE(same_array(gather_shards(alone(std::nullopt, kMesh)), stored_two().at("b")));
  Mesh without_ids = kMesh;
  without_ids.device_ids = {};
  EXPECT_EQ(alone(std::nullopt, without_ids).shards.size(), 4U);
  // One replica of some of the devices is not all of them.
  const Mesh one = make_mesh({1, 2}, {"r", "m"});
  EXPECT_EQ(alone(std::vector<std::int64_t>{0, 1, 2}, one).shards.size(), 2U);
  EXPECT_THAT(
      [&] {
        alone(std::vector<std::int64_t>{0, 1}, one);
      },
      FailsWith(Code::kInvalidArgument, "all devices"));
  EXPECT_THAT([&] { alone(std::nullopt, one); }, FailsWith(Code::kInvalidArgument, "all devices"));
  EXPECT_THAT(
      [&] {
        alone(std::vector<std::int64_t>{0, 1, 2}, kMesh);
      },
      FailsWith(Code::kInvalidArgument, "device 3 of the mesh"));
}

TEST(SingleReplica, IsRegisteredInPlaceOfTheArrayHandler) {
  TypeHandlerRegistry registry = standard_type_handlers();
  const auto handler = std::make_shared<SingleReplicaArrayHandler>();
  EXPECT_THAT([&] { registry.add(typeid(ShardedArray), handler); },
              FailsWith(Code::kInvalidArgument, "already registered"));
  registry.add(typeid(ShardedArray), handler, {.accepts = nullptr, .override_existing = true});
  EXPECT_EQ(registry.get("jax.Array"), handler);
  EXPECT_TRUE(handler->restores_together());
  EXPECT_FALSE(registry.get("np.ndarray")->restores_together());
  SingleReplicaArrayHandler::Options options;
  options.array.replica_id = std::nullopt;
  EXPECT_THAT([&] { SingleReplicaArrayHandler{options}; },
              FailsWith(Code::kInvalidArgument, "replica_id"));
  EXPECT_THAT([&] { static_cast<void>(handler->deserialize({}, {})); },
              FailsWith(Code::kInvalidArgument, ""));
  EXPECT_EQ(default_restore_type(SingleReplicaArrayRestoreArgs{}), "jax.Array");
}

// ---- readers that fail ----

// Three processes, of which 0 and 1 share the replica that reads; process 1's reads do `what`.
std::vector<std::optional<Error>> run_three(
    const std::function<void(const Job&)>& what,
    Coordinator::Timeout timeout = std::chrono::seconds(60)) {
  return run_as_processes(3, [&](const Job& job) {
    const std::vector<std::vector<std::int64_t>> devices = {{0}, {1}, {2, 3}};
    const std::size_t me = job->process_index();
    const auto reader =
        std::make_shared<Reader>(stored_two(), processes_of(job, devices[me], timeout), [&] {
          if (me == 1) what(job);
        });
    restore(reader, right(0).leaves, {});
  });
}

TEST(SingleReplica, AReaderThatFailsIsNamedInAll) {
  const auto errors =
      run_three([](const Job&) { throw Error(Code::kDataLoss, "a: chunk 0.0: damaged"); });
  for (std::size_t p = 0; p < 3; ++p) {
    ASSERT_TRUE(errors[p]);
    EXPECT_EQ(errors[p]->code(), Code::kDataLoss);
    EXPECT_EQ(errors[p]->message(),
              p == 1 ? "a: chunk 0.0: damaged" : "process 1: a: chunk 0.0: damaged");
  }
}

TEST(SingleReplica, AReaderThatHangsIsNamedWhenTheTimeIsOver) {
  std::atomic<bool> given_up = false;
  // for who hangs, and not for who is slow on a busy machine
  const auto timeout = std::chrono::seconds(3);
  std::atomic<int> left = 2;
  const auto errors = run_as_processes(3, [&](const Job& job) {
    const std::vector<std::vector<std::int64_t>> devices = {{0}, {1}, {2, 3}};
    const std::size_t me = job->process_index();
    const auto reader =
        std::make_shared<Reader>(stored_two(), processes_of(job, devices[me], timeout), [&] {
          while (me == 1 && !given_up.load()) std::this_thread::yield();
        });
    try {
      restore(reader, right(0).leaves, {});
    } catch (const Error&) {
      if (--left == 0) given_up = true;
      throw;
    }
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kUnavailable);
    EXPECT_THAT(error->message(),
                HasSubstr("'restore: read': process 1 did not arrive before process"));
  }
}

// A coordinator that breaks off at the n-th delivery.
class Breaking final : public testing::ForwardingCoordinator {
 public:
  Breaking(Job of, int deliveries) : ForwardingCoordinator(std::move(of)), left_(deliveries) {}
  std::vector<Bytes> exchange(std::string_view name, ByteView value, const Delivery& between,
                              Timeout timeout) override {
    if (left_-- == 0) throw Error(Code::kUnavailable, "this process ends here");
    return ForwardingCoordinator::exchange(name, value, between, timeout);
  }

 private:
  int left_;
};

TEST(SingleReplica, NamesAProcessThatEndsDuringABroadcast) {
  for (const std::size_t who : {0, 1})
    for (const int deliveries : {0, 1}) {
      auto errors = run_as_processes(2, [&](const Job& job) {
        Asked asked = right(job->process_index());
        asked.options.broadcast_memory_limit_bytes = 0;  // each leaf alone
        Job mine = job;
        if (job->process_index() == who) mine = std::make_shared<Breaking>(job, deliveries);
        restore(std::make_shared<Reader>(stored_two(), processes_of(mine, *asked.devices)),
                asked.leaves, asked.options);
      });
      ASSERT_TRUE(errors[who] && errors[1 - who]);
      EXPECT_EQ(errors[who]->message(), "this process ends here");
      EXPECT_EQ(errors[1 - who]->code(), Code::kUnavailable);
      EXPECT_THAT(errors[1 - who]->message(),
                  HasSubstr("'restore: values': process " + std::to_string(who) +
                            " ended before arriving"));
    }
}

}  // namespace
}  // namespace cairn
