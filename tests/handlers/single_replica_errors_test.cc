// single_replica_errors_test.cc -- what SingleReplicaArrayHandler refuses, in all processes alike,
// and what only looks wrong.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/handlers/single_replica_reader.h"

namespace cairn {
namespace {

using testing::Asked;
using ::testing::HasSubstr;
using testing::kMesh;
using testing::run_two;

struct Wrong {
  const char* name;
  std::function<void(std::size_t process, Asked& asked)> make;
  std::vector<std::string> says;
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

const NamedSharding kSplit{kMesh, {{"m"}}};

const Wrong kWrong[] = {
    {"RestoreArgs",
     [](std::size_t, Asked& of) { of.leaves[1].second = RestoreArgs{}; },
     {"b: ", "needs SingleReplicaArrayRestoreArgs", "RestoreArgs"}},
    {"ArrayRestoreArgs",
     [](std::size_t, Asked& of) {
       ArrayRestoreArgs args;
       args.sharding = kSplit;
       of.leaves[0].second = args;
     },
     {"a: ", "needs SingleReplicaArrayRestoreArgs", "got ArrayRestoreArgs"}},
    {"NoSharding",
     [](std::size_t, Asked& of) { of.args(1).sharding.reset(); },
     {"b: ", "no sharding"}},
    {"MeshAndAxes",
     [](std::size_t, Asked& of) {
       of.args(0).sharding.reset();
       of.args(0).mesh = kMesh;
       of.args(0).mesh_axes = PartitionSpec{};
     },
     {"a: ", "no sharding", "mesh_axes"}},
    {"SingleDevice",
     [](std::size_t, Asked& of) { of.args(1).sharding = SingleDeviceSharding{"cpu:0"}; },
     {"b: ", "not a NamedSharding", "cpu:0"}},
    {"OneAxis",
     [](std::size_t, Asked& of) {
       for (int i : {0, 1}) of.args(i).sharding = NamedSharding{make_mesh({4}, {"r"}), {}};
     },
     {"a: ", "mesh (4,)", "no replicas"}},
    {"AxisThatIsNone",
     [](std::size_t, Asked& of) { of.options.replica_axis_index = 2; },
     {"replica_axis_index 2", "there are 2"}},
    {"NegativeAxisThatIsNone",
     [](std::size_t, Asked& of) { of.options.replica_axis_index = -3; },
     {"replica_axis_index -3", "there are 2"}},
    {"ReplicaThatIsNone",
     [](std::size_t, Asked& of) { of.options.primary_replica_id = 2; },
     {"'r'", "primary_replica_id 2", "there are 2"}},
    {"NegativeReplicaThatIsNone",
     [](std::size_t, Asked& of) { of.options.primary_replica_id = -3; },
     {"primary_replica_id -3"}},
    {"SplitAlongTheReplicas",
     [](std::size_t, Asked& of) {
       of.args(1).sharding = NamedSharding{kMesh, {{"m", "r"}}};
     },
     {"b: ", "along 'r'", "axis of the replicas"}},
    {"AxisNotInTheMesh",
     [](std::size_t, Asked& of) {
       of.args(1).sharding = NamedSharding{kMesh, {{"z"}}};
     },
     {"b: ", "z"}},
    {"OtherMesh",
     [](std::size_t, Asked& of) {
       NamedSharding other = kSplit;
       other.mesh.device_ids = {3, 2, 1, 0};
       of.args(1).sharding = other;
     },
     {"b: ", "is on a different mesh than a"}},
    {"AllDevicesInThePrimary",
     [](std::size_t, Asked& of) {
       for (int i : {0, 1}) of.args(i).sharding = NamedSharding{make_mesh({1, 4}, {"r", "m"}), {}};
     },
     {"all devices are in the primary replica"}},
    {"NobodysDeviceInThePrimary",
     [](std::size_t p, Asked& of) {
       if (p == 0) of.devices = {0};
     },
     {"device 1, in the primary replica, of the mesh belongs to no process"}},
    {"NobodysDevice",
     [](std::size_t p, Asked& of) {
       if (p == 1) of.devices = {3};
     },
     {"device 2 of the mesh belongs to no process"}},
    {"TwoProcessesDevice",
     [](std::size_t p, Asked& of) {
       if (p == 1) of.devices = {1, 2, 3};
     },
     {"device 1 belongs to process 0 and to process 1"}},
    {"DevicesNotSaid",
     [](std::size_t p, Asked& of) {
       if (p == 1) of.devices.reset();
     },
     {"local_devices"}},
    {"NoShapeOutsideThePrimary",
     [](std::size_t, Asked& of) { of.args(1).global_shape.reset(); },
     {"b: ", "no global_shape", "outside the primary"}},
    {"NoDtypeOutsideThePrimary",
     [](std::size_t, Asked& of) { of.args(0).dtype.reset(); },
     {"a: ", "no dtype", "outside the primary"}},
    {"TwoShapes",
     [](std::size_t, Asked& of) {
       of.args(0).shape = Shape{4, 3};
     },
     {"a: ", "must match"}},
    {"OtherShapeThanStored",
     [](std::size_t, Asked& of) { of.args(1).global_shape = Shape{6}; },
     {"b: ", "stored with shape (4,)", "strict"}},
    {"OtherRankThanStored",
     [](std::size_t, Asked& of) {
       of.args(1).global_shape = Shape{4, 1};
       of.args(1).strict = false;
     },
     {"b: ", "ranks do not match"}},
    {"Indivisible",
     [](std::size_t, Asked& of) {
       of.args(1).global_shape = Shape{5};
       of.args(1).strict = false;
     },
     {"b: ", "5"}},
    {"FactorAboveOne",
     [](std::size_t, Asked& of) { of.options.broadcast_memory_scaling_factor = 1.5; },
     {"broadcast_memory_scaling_factor is 1.5"}},
    {"FactorThatIsNone",
     [](std::size_t, Asked& of) { of.options.broadcast_memory_scaling_factor = std::nan(""); },
     {"broadcast_memory_scaling_factor"}},
    {"OtherAxes",
     [](std::size_t p, Asked& of) {
       for (int i : {0, 1}) of.args(i).sharding = NamedSharding{kMesh, {}};
       of.options.replica_axis_index = static_cast<std::int64_t>(p);
     },
     {"replica_axis_index: process 1 has 1, process 0 has 0"}},
    {"OtherPrimaries",
     [](std::size_t p, Asked& of) { of.options.primary_replica_id = static_cast<std::int64_t>(p); },
     {"primary_replica_id: process 1 has 1, process 0 has 0"}},
    {"OtherSpecs",
     [](std::size_t p, Asked& of) {
       if (p == 1) of.args(0).sharding = NamedSharding{kMesh, {{}, {"m"}}};
     },
     {"a: process 1 has"}},
    {"OtherOrder",
     [](std::size_t p, Asked& of) {
       if (p == 1) std::swap(of.leaves[0], of.leaves[1]);
     },
     {"a: process 1 has b instead"}},
    {"OneLess",
     [](std::size_t p, Asked& of) {
       if (p == 1) of.leaves.pop_back();
     },
     {"b: process 0 has it, process 1 does not"}},
    {"OtherDtypes",
     [](std::size_t p, Asked& of) {
       if (p == 1) of.args(1).dtype = DType::kInt16;
     },
     {"b: process 1 has int16 (4,), process 0 has int8 (4,)"}},
    {"OtherShapes",
     [](std::size_t p, Asked& of) {
       if (p == 1) of.args(1).global_shape = Shape{8};
     },
     {"b: process 1 has int8 (8,), process 0 has int8 (4,)"}},
    {"SingleReplicaShardingOfSeveralReplicas",
     [](std::size_t, Asked& of) { of.args(0).single_replica_sharding = kSplit; },
     {"a: ", "single_replica_sharding", "several replicas"}},
    {"SingleReplicaShardingElsewhere",
     [](std::size_t, Asked& of) {
       of.args(0).single_replica_sharding =
           NamedSharding{make_mesh({1, 2}, {"r", "m"}, 7), {{"m"}}};
     },
     {"a: ", "device 7", "not in the mesh"}},
    {"SingleReplicaShardingReversed",
     [](std::size_t, Asked& of) {
       NamedSharding reversed{make_mesh({1, 2}, {"r", "m"}), {{"m"}}};
       reversed.mesh.device_ids = {1, 0};
       of.args(0).single_replica_sharding = reversed;
     },
     {"a: ", "device 1 a different part"}},
    {"SingleReplicaShardingOfOtherParts",
     [](std::size_t, Asked& of) {
       of.args(0).single_replica_sharding = NamedSharding{make_mesh({1, 1}, {"r", "m"}), {{"m"}}};
     },
     {"a: ", "splits arrays differently"}},
};

class WrongRestore : public ::testing::TestWithParam<Wrong> {};
INSTANTIATE_TEST_SUITE_P(SingleReplica, WrongRestore, ::testing::ValuesIn(kWrong),
                         [](const auto& of) { return of.param.name; });

// covers: type_handlers.SingleReplicaArrayHandler
// note: Processes whose arguments differ all get an error. Orbax hangs, or does not notice.
TEST_P(WrongRestore, FailsInAllAlike) {
  const auto errors = run_two(GetParam().make);
  for (std::size_t p = 0; p < 2; ++p) {
    ASSERT_TRUE(errors[p]) << "process " << p;
    EXPECT_EQ(errors[p]->code(), Code::kInvalidArgument) << errors[p]->message();
    for (const std::string& text : GetParam().says)
      EXPECT_THAT(errors[p]->message(), HasSubstr(text)) << "process " << p;
  }
}

TEST(SingleReplica, TheSameArgumentsWithoutTheMistakeAreGood) {
  for (const auto& error : run_two([](std::size_t, Asked&) {}))
    EXPECT_FALSE(error) << error->message();
}

// What is allowed, though it looks wrong.
TEST(SingleReplica, ReadersNeedNoShapesAndFactorsCountOnlyWithoutALimit) {
  for (const auto& error : run_two([](std::size_t p, Asked&of) {
         of.options.broadcast_memory_scaling_factor = 7;
         // the least counts
         of.options.broadcast_memory_limit_bytes = static_cast<std::int64_t>(10 + p);
         of.options.primary_replica_id = 1;
         if (p == 1) {
           of.args(0).dtype.reset();
           of.args(1).global_shape.reset();
         }
       }))
    EXPECT_FALSE(error) << error->message();
}

}  // namespace
}  // namespace cairn
