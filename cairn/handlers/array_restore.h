// array_restore.h -- one array on its way from storage to devices: the boxes that they want, each
// in memory once however many want it.
#pragma once

#include <cairn/handlers.h>
#include <cairn/handlers/box_table.h>
#include <cairn/handlers/read_leaves.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

namespace cairn::handlers {

// This process's; none: all there are.
using LocalDevices = std::optional<std::unordered_set<std::int64_t>>;
LocalDevices local_devices(const MultiprocessingOptions& processes);

// The shape that was asked for, by either name; none: the stored one. Throws invalid_argument for
// two that differ.
std::optional<Shape> asked_shape(const ArrayRestoreArgs& args);
// The shape to be restored. Throws invalid_argument for one that the arguments do not let it
// become.
Shape shape_for(const TensorInfo& stored, const ArrayRestoreArgs& args);

class RestoringArray {
 public:
  // Throws as device_boxes.
  RestoringArray(Shape shape, Sharding sharding, DType dtype, const LocalDevices& local);

  // What devices hold, each box once, and which of them each device does, in the order of the
  // sharding's devices.
  [[nodiscard]] std::span<const Box> boxes() const { return boxes_; }
  [[nodiscard]] std::span<const std::size_t> box_of_device() const { return box_of_device_; }
  // Whether a local device holds it.
  [[nodiscard]] bool is_here(std::size_t box) const { return !memory_[box].wanted.empty(); }
  [[nodiscard]] std::uint64_t box_bytes(std::size_t box) const;
  [[nodiscard]] const Shape& shape() const { return result_.shape; }
  [[nodiscard]] DType dtype() const { return result_.dtype; }

  // Appends what is to be read for a box; what is not stored of it is zeros. Throws
  // invalid_argument if that takes more than the leaf's limiter grants.
  void read(std::size_t box, const ParamInfo& info, const TensorInfo& stored,
            std::vector<LeafRead>& reads);
  // The box's elements in C order, to be written to.
  std::byte* memory(std::size_t box);

  // Once all boxes that are here have memory.
  ShardedArray take();

 private:
  struct Memory {
    std::vector<std::size_t> wanted;  // positions of the shards
    std::shared_ptr<Buffer> buffer;
  };

  ShardedArray result_;
  std::vector<Box> boxes_;
  std::vector<std::size_t> box_of_device_;
  std::vector<Memory> memory_;  // beside boxes_
};

}  // namespace cairn::handlers
