// One device's box without the others': the same as when all are gone through. Both beside JAX:
// tests/interop/test_sharding.py.
#include <cairn/distributed/sharding/named_placement.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace cairn::distributed {
namespace {

TEST(NamedPlacement, NumbersReplicasAsTheyCome) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    Mesh mesh;
    for (std::size_t a = 0, axes = 1 + below(4); a < axes; ++a) {
      mesh.shape.push_back(static_cast<std::int64_t>(1 + below(4)));
      mesh.axis_names.push_back(std::string(1, static_cast<char>('a' + a)));
    }
    std::vector<std::int64_t> ids(static_cast<std::size_t>(element_count(mesh.shape)));
    std::iota(ids.begin(), ids.end(), 5);
    std::shuffle(ids.begin(), ids.end(), random);
    mesh.device_ids = ids;
    PartitionSpec spec(2);
    Shape shape = {1, below(8) == 0 ? 0 : 1};
    for (std::size_t a = 0; a < mesh.shape.size(); ++a) {
      const std::size_t dim = below(3);  // 2: it splits nothing
      if (dim == 2) continue;
      spec[dim].push_back(mesh.axis_names[a]);
      shape[dim] *= mesh.shape[a];
    }
    const NamedSharding sharding{mesh, spec};
    const NamedPlacement placement(sharding, shape);
    ASSERT_EQ(placement.devices(), ids.size());
    std::vector<DeviceBox> seen;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const DeviceBox held = placement.at(i);
      EXPECT_EQ(held.device_id, ids[i]);
      EXPECT_EQ(held.box.shape, placement.part());
      EXPECT_EQ(held.replica,
                std::count_if(seen.begin(), seen.end(),
                              [&](const DeviceBox& earlier) { return earlier.box == held.box; }));
      EXPECT_LT(held.replica, placement.replicas());
      EXPECT_EQ(placement.of(ids[i]), held);
      seen.push_back(held);
    }
    EXPECT_EQ(placement.of(4), std::nullopt);
    EXPECT_EQ(placement.of(-1), std::nullopt);
  }
}

TEST(NamedPlacement, WithoutIdsDevicesAreNumberedInOrder) {
  const NamedSharding sharding{
      {.shape = {4}, .axis_names = {"x"}, .axis_types = {}, .device_ids = {}}, {{"x"}}};
  const NamedPlacement placement(sharding, Shape{8});
  EXPECT_EQ(placement.of(3)->box, (Box{{6}, {2}}));
  EXPECT_EQ(placement.of(4), std::nullopt);
  EXPECT_EQ(placement.of(-1), std::nullopt);
}

TEST(NamedPlacement, EmptyEntriesBeyondTheRankSplitNothing) {
  const Mesh mesh = make_mesh({4}, {"x"});
  const NamedSharding whole{mesh, {{}}}, split{mesh, {{"x"}, {}, {}}}, beyond{mesh, {{}, {"x"}}};
  const Shape scalar, eight{8};
  EXPECT_EQ(NamedPlacement(whole, scalar).of(3)->box, (Box{{}, {}}));
  EXPECT_EQ(NamedPlacement(split, eight).of(3)->box, (Box{{6}, {2}}));
  EXPECT_THROW(NamedPlacement(beyond, eight), Error);
}

TEST(Mesh, CopiesShareTheNumbersOfItsDevices) {
  const Mesh mesh = make_mesh({512}, {"x"});
  const Mesh copy = mesh;
  EXPECT_EQ(copy.device_ids.span().data(), mesh.device_ids.span().data());
  EXPECT_EQ(copy, make_mesh({512}, {"x"}));
  EXPECT_NE(copy, make_mesh({512}, {"x"}, 1));
}

}  // namespace
}  // namespace cairn::distributed
