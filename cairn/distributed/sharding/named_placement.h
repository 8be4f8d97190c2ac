// named_placement.h -- computes the box of any single device under a NamedSharding. A process plans
// for its own devices only, however many others there are.
#pragma once

#include <cairn/orbax/sharding.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::inline v0::distributed {

// The boxes that a NamedSharding gives to the devices of its mesh.
class NamedPlacement {
 public:
  // For an array of `shape`. The sharding must outlive this object. Throws what device_boxes
  // throws.
  NamedPlacement(const NamedSharding& sharding, std::span<const std::int64_t> shape);

  [[nodiscard]] std::size_t devices() const { return devices_; }
  // the shape of every device's box
  [[nodiscard]] const Shape& part() const { return part_; }
  [[nodiscard]] std::int64_t replicas() const { return replicas_; }  // of each box
  // Returns the box of the device at `position` in the mesh, in C order.
  [[nodiscard]] DeviceBox at(std::size_t position) const;
  // Returns the box of a device; nullopt if the mesh does not contain the device.
  [[nodiscard]] std::optional<DeviceBox> of(std::int64_t device_id) const;

 private:
  // How one mesh axis moves along the array: one step along the axis passes `weight` boxes of
  // dimension `dim`.
  struct Axis {
    std::int64_t devices = 1;
    std::size_t dim = 0;
    std::int64_t weight = 0;  // 0: the axis splits nothing
    bool replicates = true;   // the devices along the axis hold the same box
  };

  const Mesh& mesh_;
  std::size_t devices_;
  std::vector<Axis> axes_;
  Shape part_;
  std::int64_t replicas_ = 1;
};

}  // namespace cairn::inline v0::distributed
