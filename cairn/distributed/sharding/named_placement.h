// named_placement.h -- what a NamedSharding makes of an array, told of any device alone: a process
// plans for its own devices, however many others there are.
#pragma once

#include <cairn/sharding.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::distributed {

class NamedPlacement {
 public:
  // Of an array of `shape`; the sharding must outlive it. Throws as device_boxes.
  NamedPlacement(const NamedSharding& sharding, std::span<const std::int64_t> shape);

  [[nodiscard]] std::size_t devices() const { return devices_; }
  // the extents of every device's box
  [[nodiscard]] const Shape& part() const { return part_; }
  [[nodiscard]] std::int64_t replicas() const { return replicas_; }  // of every box
  // of the mesh's devices in C order
  [[nodiscard]] DeviceBox at(std::size_t position) const;
  // nullopt if it is not in the mesh
  [[nodiscard]] std::optional<DeviceBox> of(std::int64_t device_id) const;

 private:
  // How one mesh axis moves along the array: `weight` boxes of dimension `dim` for each step.
  struct Axis {
    std::int64_t devices = 1;
    std::size_t dim = 0;
    std::int64_t weight = 0;  // 0: it splits nothing
    bool replicates = true;   // its devices hold the same
  };

  const Mesh& mesh_;
  std::size_t devices_;
  std::vector<Axis> axes_;
  Shape part_;
  std::int64_t replicas_ = 1;
};

}  // namespace cairn::distributed
