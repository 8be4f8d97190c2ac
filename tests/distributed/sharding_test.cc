// Meshes and partition specs to the boxes of devices. What JAX itself says is in
// tests/interop/test_sharding.py.
#include <cairn/orbax/sharding.h>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

NamedSharding on_4x2(PartitionSpec spec) {
  return {.mesh = make_mesh({4, 2}, {"x", "y"}), .spec = std::move(spec)};
}

std::vector<std::int64_t> replicas(const Sharding& sharding, const Shape& shape) {
  std::vector<std::int64_t> out;
  for (const DeviceBox& box : device_boxes(sharding, shape)) out.push_back(box.replica);
  return out;
}

TEST(DeviceBoxes, SplitByOneAxisEach) {
  const auto boxes = device_boxes(on_4x2({{"x"}, {"y"}}), Shape{8, 8});
  ASSERT_EQ(boxes.size(), 8U);
  EXPECT_EQ(boxes[0], (DeviceBox{0, {{0, 0}, {2, 4}}, 0}));
  EXPECT_EQ(boxes[1], (DeviceBox{1, {{0, 4}, {2, 4}}, 0}));
  EXPECT_EQ(boxes[7], (DeviceBox{7, {{6, 4}, {2, 4}}, 0}));
}

TEST(DeviceBoxes, TheFirstAxisOfAnEntryIsOutermost) {
  EXPECT_EQ(device_boxes(on_4x2({{"x", "y"}}), Shape{8})[3].box, (Box{{3}, {1}}));
  EXPECT_EQ(device_boxes(on_4x2({{"y", "x"}}), Shape{8})[3].box, (Box{{5}, {1}}))
      << "device 3 is x=1, y=1";
}

TEST(DeviceBoxes, ReplicasAreNumberedInTheOrderOfTheMesh) {
  EXPECT_EQ(replicas(on_4x2({{"x"}}), {4}), (std::vector<std::int64_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(replicas(on_4x2({{}, {"y"}}), {4, 4}),
            (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(replicas(on_4x2({}), {}), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(DeviceBoxes, EmptyPartsOfADimensionAreOneAndTheSame) {
  EXPECT_EQ(replicas(on_4x2({{"x"}, {"y"}}), {0, 4}),
            (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 3, 3}));
}

TEST(DeviceBoxes, IdsAreThoseOfTheMesh) {
  NamedSharding sharding = on_4x2({{"x"}});
  sharding.mesh.device_ids = {0, 1, 2, 3, 2048, 2049, 2050, 2051};
  EXPECT_EQ(device_boxes(sharding, Shape{8})[4].device_id, 2048);
  sharding.mesh.device_ids = {};
  EXPECT_EQ(device_boxes(sharding, Shape{8})[4].device_id, 4) << "none recorded: numbered in order";
}

TEST(DeviceBoxes, AxesOfOneDeviceSplitNothing) {
  const NamedSharding sharding{.mesh = make_mesh({1, 2}, {"one", "two"}),
                               .spec = {{"one"}, {"two"}}};
  EXPECT_EQ(shard_shape(sharding, Shape{3, 4}), (Shape{3, 2}));
  EXPECT_EQ(device_boxes(NamedSharding{.mesh = make_mesh({}, {}), .spec = {}}, Shape{5}).size(), 1U)
      << "a mesh without axes is one device";
}

TEST(DeviceBoxes, RefusesWhatJaxRefuses) {
  const auto fails = [](const NamedSharding& sharding, const Shape& shape, Code code,
                        const char* text) {
    EXPECT_THAT([&] { device_boxes(sharding, shape); }, FailsWith(code, text));
  };
  const auto bad = Code::kInvalidArgument;
  fails(on_4x2({{"x", "y"}}), {8 + 4}, bad,
        "dimension 0 of (12,) has 12 elements, which mesh axes 'x', 'y' cannot split into 8 equal "
        "parts");
  fails(on_4x2({{}, {"y"}}), {8}, bad, "2 entries, but the array (8,) has rank 1");
  fails(on_4x2({{"z"}}), {8}, bad, "splits dimension 0 by 'z', which is not an axis of the mesh");
  fails(on_4x2({{"x"}, {"x"}}), {8, 8}, bad, "names mesh axis 'x' twice");
  fails(on_4x2({{"x", "x"}}), {8}, bad, "names mesh axis 'x' twice");
  NamedSharding manual = on_4x2({{"y"}});
  manual.mesh.axis_types[0] = AxisType::kManual;
  fails(manual, {8}, Code::kUnimplemented, "mesh axis 'x' (4 devices) is Manual");
}

TEST(DeviceBoxes, RefusesUnsoundMeshes) {
  const auto fails = [](const Mesh& mesh, const char* text) {
    EXPECT_THAT([&] { device_boxes(NamedSharding{.mesh = mesh, .spec = {}}, Shape{4}); },
                FailsWith(Code::kInvalidArgument, text));
  };
  fails({.shape = {2, 2}, .axis_names = {"x"}, .axis_types = {}, .device_ids = {}},
        "mesh (2, 2) has 1 axis names");
  fails({.shape = {2, 2}, .axis_names = {"x", "x"}, .axis_types = {}, .device_ids = {}},
        "mesh axis 'x' appears twice");
  fails({.shape = {1}, .axis_names = {""}, .axis_types = {}, .device_ids = {}},
        "axis 0 of mesh (1,) has an empty name");
  fails({.shape = {2, 0}, .axis_names = {"x", "y"}, .axis_types = {}, .device_ids = {}},
        "mesh axis 'y' (0 devices)");
  fails({.shape = {2, -1}, .axis_names = {"x", "y"}, .axis_types = {}, .device_ids = {}},
        "mesh axis 'y' (-1 devices)");
  fails({.shape = {1 << 20, 2}, .axis_names = {"x", "y"}, .axis_types = {}, .device_ids = {}},
        "more than 1048576 devices");
  fails({.shape = {INT64_MAX, INT64_MAX},
         .axis_names = {"x", "y"},
         .axis_types = {},
         .device_ids = {}},
        "more than 1048576 devices");
  fails({.shape = {2}, .axis_names = {"x"}, .axis_types = {}, .device_ids = {0}},
        "has 1 device ids; 2 are needed");
  fails({.shape = {2}, .axis_names = {"x"}, .axis_types = {}, .device_ids = {7, 7}},
        "device 7 appears twice in the sharding");
  fails({.shape = {1, 1},
         .axis_names = {"x", "y"},
         .axis_types = {AxisType::kAuto},
         .device_ids = {}},
        "has 1 axis types");
  fails({.shape = Shape(65, 1),
         .axis_names = std::vector<std::string>(65, "x"),
         .axis_types = {},
         .device_ids = {}},
        "the mesh has 65 axes");
}

TEST(DeviceBoxes, OfOneDevice) {
  for (const char* text : {"cpu:3", "TFRT_CPU_3", "TPU_3(process=1,(2,0,0,0))"})
    EXPECT_EQ(device_boxes(SingleDeviceSharding{text}, Shape{2, 2}),
              (std::vector<DeviceBox>{{3, Box::whole({2, 2}), 0}}))
        << text;
  EXPECT_THAT([] { device_boxes(SingleDeviceSharding{"cpu"}, Shape{}); },
              FailsWith(Code::kInvalidArgument, "'cpu' has no number"));
  EXPECT_THAT([] { device_boxes(SingleDeviceSharding{"cpu:99999999999999999999"}, Shape{}); },
              FailsWith(Code::kInvalidArgument, "has no number"));
  EXPECT_EQ(SingleDeviceSharding{"cpu:3"}, SingleDeviceSharding{"TFRT_CPU_3"});
}

TEST(DeviceBoxes, OfParts) {
  const ExplicitSharding parts{{{5, {{0}, {3}}}, {4, {{3}, {2}}}, {9, {{0}, {3}}}}};
  EXPECT_EQ(device_boxes(parts, Shape{5}),
            (std::vector<DeviceBox>{{5, {{0}, {3}}, 0}, {4, {{3}, {2}}, 0}, {9, {{0}, {3}}, 1}}));
  EXPECT_THAT([&] { shard_shape(parts, Shape{5}); },
              FailsWith(Code::kFailedPrecondition, "(3,) on device 5, (2,) on device 4"));
  EXPECT_THAT([&] { replica_count(parts, Shape{5}); },
              FailsWith(Code::kFailedPrecondition, "on 2 devices, others on fewer"));
  EXPECT_THAT([&] { device_boxes(parts, Shape{4}); },
              FailsWith(Code::kOutOfRange, "the part of device 4"));
  EXPECT_THAT(
      [&] {
        device_boxes(parts, Shape{5, 1});
      },
      FailsWith(Code::kInvalidArgument, "the part of device 5"));
  EXPECT_THAT(
      [] {
        device_boxes(ExplicitSharding{{{1, {}}, {1, {}}}}, Shape{});
      },
      FailsWith(Code::kInvalidArgument, "device 1 appears twice in the sharding"));
  EXPECT_THAT([] { shard_shape(ExplicitSharding{}, Shape{}); },
              FailsWith(Code::kFailedPrecondition, "without devices"));
  EXPECT_THAT([] { replica_count(ExplicitSharding{}, Shape{}); },
              FailsWith(Code::kFailedPrecondition, "without devices"));
}

TEST(DeviceBoxes, AnUnknownShardingPlacesNothing) {
  EXPECT_THAT([] { device_boxes(UnknownSharding{"{}"}, Shape{}); },
              FailsWith(Code::kFailedPrecondition, "a sharding of unknown type: {}"));
}

TEST(Shardings, CountsAndShapes) {
  EXPECT_EQ(shard_shape(on_4x2({{"x"}, {}}), Shape{16, 4}), (Shape{4, 4}));
  EXPECT_EQ(replica_count(on_4x2({{"x"}, {}}), Shape{16, 4}), 2);
  EXPECT_FALSE(is_fully_replicated(on_4x2({{"x"}}), Shape{16}));
  EXPECT_TRUE(is_fully_replicated(on_4x2({{}}), Shape{16}));
  EXPECT_TRUE(is_fully_replicated(SingleDeviceSharding{"cpu:0"}, Shape{16}));
  EXPECT_TRUE(is_fully_replicated(ExplicitSharding{{{0, {{0}, {2}}}, {1, {{0}, {2}}}}}, Shape{2}));
  EXPECT_FALSE(is_fully_replicated(ExplicitSharding{{{0, {{0}, {2}}}, {1, {{0}, {1}}}}}, Shape{2}));
}

}  // namespace
}  // namespace cairn
