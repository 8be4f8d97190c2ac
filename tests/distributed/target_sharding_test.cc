// Where a restored array shall go.
#include <cairn/orbax/sharding.h>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

const std::vector<Device> kHere = {
    {0, "cpu:0"}, {1, "cpu:1"}, {2048, "cpu:2048"}, {2049, "cpu:2049"}};

TEST(TargetSharding, OfMeshAndAxes) {
  const NamedSharding sharding = named_sharding(make_mesh({2, 2}, {"x", "y"}), {{"x"}});
  EXPECT_EQ(sharding.spec, (PartitionSpec{{"x"}}));
  EXPECT_THAT(
      [] {
        named_sharding(make_mesh({2, 2}, {"x", "y"}), {{"z"}});
      },
      FailsWith(Code::kInvalidArgument, "'z', which is not an axis"));
  EXPECT_THAT(
      [] {
        make_mesh({2, 2}, {"x"});
      },
      FailsWith(Code::kInvalidArgument, "has 1 axis names"));
}

TEST(TargetSharding, KeyDataHasDimensionsThatAreNotSplit) {
  const Mesh mesh = make_mesh({2}, {"x"});
  EXPECT_EQ(key_data_sharding(named_sharding(mesh, {{"x"}})),
            Sharding(named_sharding(mesh, {{"x"}, {}})));
  EXPECT_EQ(key_data_sharding(named_sharding(mesh, {}), 2),
            Sharding(named_sharding(mesh, {{}, {}})));
  const Sharding one = named_sharding(make_mesh({1, 1}, {"x", "y"}), {{"x"}});
  EXPECT_EQ(key_data_sharding(one), one);
  EXPECT_EQ(key_data_sharding(SingleDeviceSharding{"cpu:0"}),
            Sharding(SingleDeviceSharding{"cpu:0"}));
}

TEST(TargetSharding, IsUsableIfItsDevicesAreHere) {
  NamedSharding sharding = named_sharding(make_mesh({2}, {"x"}), {{"x"}});
  EXPECT_EQ(usable_sharding(sharding, kHere).value(), Sharding(sharding));
  sharding.mesh.device_ids = {1, 7};
  const auto refused = usable_sharding(sharding, kHere);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(refused.error().message(),
            "the array was saved on device 7, which is not available (available: cpu:0, cpu:1, "
            "cpu:2048, cpu:2049); restore to a sharding over "
            "available devices");
}

TEST(TargetSharding, TakesAllDevicesWhereNoneAreRecorded) {
  const NamedSharding old{
      .mesh = {.shape = {2, 2}, .axis_names = {"x", "y"}, .axis_types = {}, .device_ids = {}},
      .spec = {{"x"}}};
  const Sharding found = usable_sharding(old, kHere).value();
  EXPECT_EQ(std::get<NamedSharding>(found).mesh.device_ids,
            (std::vector<std::int64_t>{0, 1, 2048, 2049}));
  EXPECT_EQ(std::get<NamedSharding>(found).mesh.axis_types,
            (std::vector<AxisType>{AxisType::kAuto, AxisType::kAuto}));
  EXPECT_THAT([&] { return usable_sharding(old, std::span(kHere).first(3)).value(); },
              FailsWith(Code::kFailedPrecondition, "of 4 devices, available are 3"));
}

TEST(TargetSharding, OneDeviceGoesByItsName) {
  EXPECT_EQ(usable_sharding(SingleDeviceSharding{"TFRT_CPU_1"}, kHere).value(),
            Sharding(SingleDeviceSharding{"cpu:1"}));
  EXPECT_THAT([] { return usable_sharding(SingleDeviceSharding{"cuda:0"}, {}).value(); },
              FailsWith(Code::kFailedPrecondition,
                        "saved on device cuda:0, which is not available (available: none)"));
}

TEST(TargetSharding, AnUnknownOneCannotBeUsed) {
  EXPECT_THAT([] { return usable_sharding(UnknownSharding{"{\"a\": 1}"}, kHere).value(); },
              FailsWith(Code::kFailedPrecondition, "unknown type: {\"a\": 1}"));
}

TEST(TargetSharding, UnsoundOnesAreAnError) {
  const NamedSharding bad{.mesh = make_mesh({2}, {"x"}), .spec = {{"y"}}};
  const auto refused = usable_sharding(bad, kHere);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace cairn
