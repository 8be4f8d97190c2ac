// The text in `_sharding`. That it is what Orbax writes is tested against Orbax, in
// tests/interop/test_sharding.py.
#include <cairn/orbax/sharding.h>

#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::Damage;
using testing::FailsWith;

const std::string kNamed =
    R"({"sharding_type": "NamedSharding", "shape": [2, 2], "axis_names": ["x", "y"], "axis_types": ["AxisType.Auto", "AxisType.Explicit"], )"
    R"("partition_spec": [["x", "y"], null, "x"], "device_mesh": {"mesh": [[{"id": 0}, {"id": 1}], [{"id": 2048}, {"id": 3}]]}})";
// A spec that names no axis twice.
const std::string kGood =
    R"({"sharding_type": "NamedSharding", "shape": [2, 2], "axis_names": ["x", "y"], "axis_types": ["AxisType.Auto", "AxisType.Explicit"], )"
    R"("partition_spec": [["x", "y"], null], "device_mesh": {"mesh": [[{"id": 0}, {"id": 1}], [{"id": 2048}, {"id": 3}]]}})";

TEST(ShardingJson, ReadsEveryPart) {
  const NamedSharding expect{.mesh = {.shape = {2, 2},
                                      .axis_names = {"x", "y"},
                                      .axis_types = {AxisType::kAuto, AxisType::kExplicit},
                                      .device_ids = {0, 1, 2048, 3}},
                             .spec = {{"x", "y"}, {}}};
  EXPECT_EQ(parse_sharding(kGood), Sharding(expect));
  EXPECT_EQ(sharding_json(expect), kGood);
}

TEST(ShardingJson, OldTextsLackTypesAndDevices) {
  const std::string old =
      R"({"sharding_type": "NamedSharding", "shape": [4, 1], "axis_names": ["a", "\u00e9"], "partition_spec": []})";
  const NamedSharding expect{
      .mesh = {.shape = {4, 1}, .axis_names = {"a", "é"}, .axis_types = {}, .device_ids = {}},
      .spec = {}};
  EXPECT_EQ(parse_sharding(old), Sharding(expect));
  EXPECT_EQ(sharding_json(expect), old);
  EXPECT_EQ(
      parse_sharding(
          R"({"sharding_type":"NamedSharding","axis_types":null,"device_mesh":{},"axis_names":["a","é"],)"
          R"("partition_spec":[],"shape":[4,1]})"),
      Sharding(expect));
}

TEST(ShardingJson, AListOfOneAxisIsThatAxis) {
  const auto spec = [](const std::string& entry) {
    const Sharding sharding = parse_sharding(
        R"({"sharding_type": "NamedSharding", "shape": [4], "axis_names": ["a"], "partition_spec": [)" +
        entry + "]}");
    return std::get<NamedSharding>(sharding).spec;
  };
  EXPECT_EQ(spec(R"(["a"])"), spec(R"("a")"));
  EXPECT_EQ(spec("[]"), spec("null"));
}

TEST(ShardingJson, OneDevice) {
  const std::string text = R"({"sharding_type": "SingleDeviceSharding", "device_str": "cpu:0"})";
  EXPECT_EQ(parse_sharding(text), Sharding(SingleDeviceSharding{"cpu:0"}));
  EXPECT_EQ(sharding_json(SingleDeviceSharding{"cpu:0"}), text);
  EXPECT_EQ(sharding_json(SingleDeviceSharding{"TFRT_CPU_0"}),
            R"({"sharding_type": "SingleDeviceSharding", "device_str": "TFRT_CPU_0"})");
}

TEST(ShardingJson, AMeshWithoutAxesIsOneDevice) {
  const std::string text =
      R"({"sharding_type": "NamedSharding", "shape": [], "axis_names": [], "axis_types": [], "partition_spec": [], )"
      R"("device_mesh": {"mesh": {"id": 5}}})";
  EXPECT_EQ(sharding_json(parse_sharding(text)), text);
}

TEST(ShardingJson, KeepsUnknownShardings) {
  for (
      const char* text :
      {R"({"sharding_type": "PositionalSharding", "shape": [2]})",
       R"({"sharding_type": "NewSharding","x":1.50})",
       R"({"sharding_type": "NamedSharding", "shape": [2], "axis_names": [0], "axis_types": ["AxisType.Auto"], "partition_spec": [null]})",
       R"({"sharding_type": "NamedSharding", "shape": [2], "axis_names": ["x"], "axis_types": ["AxisType.New"], "partition_spec": []})"}) {
    EXPECT_EQ(parse_sharding(text), Sharding(UnknownSharding{text}));
    EXPECT_EQ(sharding_json(parse_sharding(text)), text);
  }
  EXPECT_EQ(sharding_json(ExplicitSharding{}), std::nullopt);
}

// Damage that exchanges one text for another.
Damage swap(const std::string& from, const std::string& to, const std::string& expect) {
  return {.name = from + " -> " + to,
          .apply =
              [=](Bytes& bytes) {
                std::string text(as_text(bytes));
                const std::size_t at = text.find(from);
                ASSERT_NE(at, std::string::npos) << from;
                text.replace(at, from.size(), to);
                bytes.assign(as_bytes(text).begin(), as_bytes(text).end());
              },
          .expect = expect};
}

TEST(ShardingJson, DamagedTexts) {
  const Damage table[] = {
      swap(kGood, "", "sharding: "),
      swap(kGood, "[1]", "member 'sharding_type' is missing"),
      swap(R"("sharding_type")", R"("sharding_tape")", "member 'sharding_type' is missing"),
      swap(R"("NamedSharding")", "7", "'sharding_type' holds a number, expected a string"),
      swap(R"("shape")", R"("shade")", "member 'shape' is missing"),
      swap(R"("shape": [2, 2])", R"("shape": 4)", "'shape' is a number, expected a list"),
      swap(R"("shape": [2, 2])", R"("shape": [2, "2"])",
           "'shape' holds a string, expected an integer"),
      swap(R"("shape": [2, 2])", R"("shape": [2, 2.5])",
           "'shape' holds a number, expected an integer"),
      swap(R"("shape": [2, 2])", R"("shape": [2, 3])",
           "not nested as the mesh (2, 3) is: axis 1 has 2 entries"),
      swap(R"("shape": [2, 2])", R"("shape": [2, 99999999999999999999])",
           "'shape' holds a number, expected an integer"),
      swap(R"("shape": [2, 2])", R"("shape": [4])", "axis 0 has 2 entries"),
      swap(R"("shape": [2, 2])", R"("shape": [2, 2, 1])", "axis 2 has an object"),
      swap(R"(["x", "y"], "axis_types")", R"("xy", "axis_types")",
           "'axis_names' is a string, expected a list"),
      swap(R"(["x", "y"], "axis_types")", R"(["x", "x"], "axis_types")",
           "mesh axis 'x' appears twice"),
      swap(R"(["x", "y"], "axis_types")", R"(["x", ""], "axis_types")",
           "axis 1 of mesh (2, 2) has an empty name"),
      swap(R"(["x", "y"], "axis_types")", R"(["x", null], "axis_types")",
           "'axis_names' holds null, expected a string"),
      swap(R"(["x", "y"], "axis_types")", R"(["x"], "axis_types")", "has 1 axis names"),
      swap(R"("AxisType.Auto", )", "", "has 1 axis types"),
      swap(R"("AxisType.Auto")", "0", "'axis_types' holds a number, expected a string"),
      swap(R"(["AxisType.Auto", "AxisType.Explicit"])", "{\"a\": 1}",
           "'axis_types' is an object, expected a list"),
      swap(R"("partition_spec")", R"("partition")", "member 'partition_spec' is missing"),
      swap(R"([["x", "y"], null])", R"("x")", "'partition_spec' is a string, expected a list"),
      swap(R"([["x", "y"], null])", R"([["x", "y"], "x"])", "names mesh axis 'x' twice"),
      swap(R"([["x", "y"], null])", R"([["x", "z"]])", "'z', which is not an axis of the mesh"),
      swap(R"([["x", "y"], null])", R"([["x", ["y"]]])",
           "'partition_spec' holds an array, expected a string"),
      swap(R"([["x", "y"], null])", R"([1])", "'partition_spec' holds a number, expected a string"),
      swap(R"({"mesh")", R"({"mess")", "'device_mesh' has no member 'mesh'"),
      swap(R"({"id": 0})", "0", "'device_mesh' holds a number where a device"),
      swap(R"({"id": 0})", R"({"id": "0"})", "'device_mesh' holds a string, expected an integer"),
      swap(R"({"id": 0}, )", "", "axis 1 has 1 entries"),
      swap(R"({"id": 0})", R"({"id": 3})", "device 3 appears twice in the sharding"),
  };
  testing::check_damages(as_bytes(kGood), table,
                         [](ByteView bytes) { parse_sharding(as_text(bytes)); });
  EXPECT_THAT([] { parse_sharding(kNamed); },
              FailsWith(Code::kDataLoss, "names mesh axis 'x' twice"));
}

TEST(ShardingJson, DamagedSingleDevices) {
  const std::string good = R"({"sharding_type": "SingleDeviceSharding", "device_str": "cpu:0"})";
  const Damage table[] = {
      swap("device_str", "device", "member 'device_str' is missing"),
      swap(R"("cpu:0")", "null", "'device_str' holds null, expected a string"),
  };
  testing::check_damages(as_bytes(good), table,
                         [](ByteView bytes) { parse_sharding(as_text(bytes)); });
}

TEST(ShardingJson, TruncationsAreDamage) {
  testing::for_each_truncation(as_bytes(kGood), [](ByteView bytes, const std::string& what) {
    EXPECT_THAT([&] { parse_sharding(as_text(bytes)); }, FailsWith(Code::kDataLoss)) << what;
  });
}

TEST(ShardingJson, AHugeMeshIsRefusedBeforeItIsBuilt) {
  const auto text = [](const std::string& extents, const std::string& names) {
    return R"({"sharding_type": "NamedSharding", "shape": [)" + extents + R"(], "axis_names": [)" +
           names + R"(], "partition_spec": []})";
  };
  EXPECT_THAT([&] { parse_sharding(text("1000000000, 1000000000", R"("x", "y")")); },
              FailsWith(Code::kDataLoss, "more than 1048576 devices"));
  EXPECT_THAT([&] { parse_sharding(text("-2", R"("x")")); },
              FailsWith(Code::kDataLoss, "mesh axis 'x' (-2 devices)"));
}

TEST(ShardingJson, UnsoundShardingsAreNotWritten) {
  EXPECT_THAT([] { sharding_json(NamedSharding{.mesh = make_mesh({2}, {"x"}), .spec = {{"y"}}}); },
              FailsWith(Code::kInvalidArgument, "'y', which is not an axis of the mesh"));
}

TEST(ShardingText, IsShort) {
  EXPECT_EQ(
      sharding_text(NamedSharding{.mesh = make_mesh({4, 2}, {"x", "y"}), .spec = {{"x"}, {}}}),
      "NamedSharding(x=4,y=2; P('x', None))");
  EXPECT_EQ(
      sharding_text(NamedSharding{.mesh = make_mesh({4, 2}, {"x", "y"}), .spec = {{"x", "y"}}}),
      "NamedSharding(x=4,y=2; P(('x', 'y')))");
  EXPECT_EQ(sharding_text(NamedSharding{.mesh = make_mesh({}, {}), .spec = {}}),
            "NamedSharding(; P())");
  EXPECT_EQ(sharding_text(SingleDeviceSharding{"cpu:0"}), "SingleDeviceSharding(cpu:0)");
  EXPECT_EQ(sharding_text(ExplicitSharding{{{1, {}}, {2, {}}}}), "ExplicitSharding(2 parts)");
  EXPECT_EQ(sharding_text(UnknownSharding{"{}"}), "{}");
}

}  // namespace
}  // namespace cairn
