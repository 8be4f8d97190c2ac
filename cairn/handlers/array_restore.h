// array_restore.h -- restores one array from storage to devices. Each distinct box is in memory
// once, however many devices need it.
#pragma once

#include <cairn/distributed.h>
#include <cairn/handlers/box_table.h>
#include <cairn/handlers/read_leaves.h>
#include <cairn/orbax/handlers.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

namespace cairn::inline v0::handlers {

// The devices of this process; nullopt: all devices are local.
using LocalDevices = std::optional<std::unordered_set<std::int64_t>>;
// The devices of this process, according to the options.
LocalDevices local_devices(const MultiprocessingOptions& processes);

// The requested shape, under either of its names; nullopt: the stored shape. Throws
// invalid_argument if the two names request different shapes.
std::optional<Shape> asked_shape(const ArrayRestoreArgs& args);
// The shape to restore. Throws invalid_argument if the arguments do not allow the stored shape to
// become it.
Shape shape_for(const TensorInfo& stored, const ArrayRestoreArgs& args);

// An array that is being restored.
class RestoringArray {
 public:
  // Throws as device_boxes does.
  RestoringArray(Shape shape, Sharding sharding, DType dtype, const LocalDevices& local);

  // The distinct boxes that devices hold; and for each device, in the order of the sharding, the
  // number of its box.
  [[nodiscard]] std::span<const Box> boxes() const { return boxes_; }
  [[nodiscard]] std::span<const std::size_t> box_of_device() const { return box_of_device_; }
  // Whether a local device holds the box.
  [[nodiscard]] bool is_here(std::size_t box) const { return !memory_[box].wanted.empty(); }
  // The size of a box in the result's type.
  [[nodiscard]] std::uint64_t box_bytes(std::size_t box) const;
  [[nodiscard]] const Shape& shape() const { return result_.shape; }
  [[nodiscard]] DType dtype() const { return result_.dtype; }

  // Appends the reads for a box; they point to `info` and `stored`. Elements that are not stored
  // become zeros. Throws invalid_argument if the box takes more memory than the leaf's limiter
  // grants.
  void read(std::size_t box, const ParamInfo& info, const TensorInfo& stored,
            std::vector<LeafRead>& reads);
  // The memory for the box's elements, in C order.
  std::byte* memory(std::size_t box);

  // Returns the array, once all local boxes have memory.
  ShardedArray take();

 private:
  struct Memory {
    std::vector<std::size_t> wanted;  // positions of the shards with this box
    std::shared_ptr<Buffer> buffer;
  };

  ShardedArray result_;
  std::vector<Box> boxes_;
  std::vector<std::size_t> box_of_device_;
  std::vector<Memory> memory_;  // parallel to boxes_
};

// Reports arrays whose boxes have another shape than the stored array. `infos`, `stored` and
// `arrays` are parallel.
void report_shard_shapes(std::span<const ParamInfo> infos, std::span<const TensorInfo> stored,
                         std::span<const RestoringArray> arrays);

}  // namespace cairn::inline v0::handlers
