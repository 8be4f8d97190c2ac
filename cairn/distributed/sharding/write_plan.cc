// write_plan.cc -- decides which part of an array each of its shards writes, so that every element
// is written exactly once.
#include <cairn/array/box.h>
#include <cairn/distributed/sharding/named_placement.h>
#include <cairn/orbax/sharding.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace cairn::inline v0 {
namespace {

// Throws invalid_argument unless the shards match the sharding. `held_by` returns the box that the
// sharding gives to a device.
template <class HeldBy>
void check_shards(const ShardedArray& array, const HeldBy& held_by) {
  std::unordered_set<std::int64_t> seen;
  for (const ArrayShard& shard : array.shards) {
    if (!seen.insert(shard.device_id).second)
      throw Error(Code::kInvalidArgument,
                  "device " + std::to_string(shard.device_id) + " has two shards");
    const std::optional<DeviceBox> held = held_by(shard.device_id);
    if (!held)
      throw Error(Code::kInvalidArgument, "a shard is on device " +
                                              std::to_string(shard.device_id) +
                                              ", which the sharding does not name");
    if (shard.box != held->box || shard.replica != held->replica)
      throw Error(Code::kInvalidArgument,
                  "the shard on device " + std::to_string(held->device_id) + " is replica " +
                      std::to_string(shard.replica) + " of " + box_text(shard.box) +
                      ", but the sharding has replica " + std::to_string(held->replica) + " of " +
                      box_text(held->box));
  }
}

bool is_empty(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

// Throws invalid_argument unless the box is one of the grid's parts. The last part of a dimension
// may be smaller.
void check_on_grid(const DeviceBox& held, const Shape& part, const Shape& shape) {
  for (std::size_t d = 0; d < part.size(); ++d) {
    const std::int64_t at = held.box.origin[d];
    if (part[d] != 0 &&
        (at % part[d] != 0 || held.box.shape[d] != std::min(part[d], shape[d] - at)))
      throw Error(Code::kInvalidArgument, "the part " + box_text(held.box) + " on device " +
                                              std::to_string(held.device_id) +
                                              " is not one of a grid of " + shape_text(part) +
                                              "; only such grids can be stored");
  }
}

// Returns the shape of the devices' parts. Throws invalid_argument unless the parts form a grid
// that covers the array. In an array with elements, devices that hold none do not count.
Shape grid_shape(const std::vector<DeviceBox>& boxes, const Shape& shape) {
  Shape part(shape.size(), 0);
  for (const DeviceBox& held : boxes)
    for (std::size_t d = 0; d < part.size(); ++d) part[d] = std::max(part[d], held.box.shape[d]);
  std::int64_t distinct = 0;
  for (const DeviceBox& held : boxes) {
    if (held.box.empty() && !is_empty(shape)) continue;
    check_on_grid(held, part, shape);
    distinct += held.replica == 0 ? 1 : 0;
  }
  std::int64_t needed = 1;
  for (std::size_t d = 0; d < part.size(); ++d)
    if (part[d] != 0 && __builtin_mul_overflow(needed, (shape[d] - 1) / part[d] + 1, &needed))
      needed = std::numeric_limits<std::int64_t>::max();
  if (distinct != needed)
    throw Error(Code::kInvalidArgument,
                "the devices hold " + std::to_string(distinct) + " of the " +
                    std::to_string(needed) + " parts " + shape_text(part) + " of the array " +
                    shape_text(shape) + "; the other parts cannot be stored");
  return part;
}

// Returns how many devices hold each box; 1 unless all boxes have equally many holders and one
// shape.
std::int64_t even_replicas(const std::vector<DeviceBox>& boxes, const Shape& part) {
  std::int64_t last = 0;
  for (const DeviceBox& held : boxes) {
    if (held.box.shape != part) return 1;
    last = std::max(last, held.replica);
  }
  const auto of = [&](std::int64_t r) {
    return std::count_if(boxes.begin(), boxes.end(),
                         [&](const DeviceBox& b) { return b.replica == r; });
  };
  return of(0) == of(last) ? last + 1 : 1;
}

// The parts that devices hold: boxes of one shape (the last one of a dimension may be smaller),
// each with the same number of replicas.
struct Grid {
  Shape part;
  std::int64_t replicas = 1;
};

// Throws invalid_argument unless the array's shards match its sharding.
Grid check_grid(const ShardedArray& array) {
  if (const auto* named = std::get_if<NamedSharding>(&array.sharding)) {
    const distributed::NamedPlacement placement(*named, array.shape);
    check_shards(array, [&](std::int64_t id) { return placement.of(id); });
    return {placement.part(), placement.replicas()};
  }
  const std::vector<DeviceBox> boxes = device_boxes(array.sharding, array.shape);
  std::unordered_map<std::int64_t, const DeviceBox*> by_device;
  for (const DeviceBox& held : boxes) by_device.emplace(held.device_id, &held);
  check_shards(array, [&](std::int64_t id) {
    const auto found = by_device.find(id);
    return found == by_device.end() ? std::optional<DeviceBox>() : *found->second;
  });
  Shape part = grid_shape(boxes, array.shape);
  const std::int64_t replicas = even_replicas(boxes, part);
  return {std::move(part), replicas};
}

// Returns how many replicas write a part of their shard each.
std::int64_t sharing_replicas(std::int64_t replicas, const PieceOptions& options) {
  if (!options.use_replica_parallel) return 1;
  if (!options.replica_id)
    throw Error(Code::kInvalidArgument,
                "replicas cannot share the writing if each process saves separately");
  return options.max_replicas ? std::min(replicas, *options.max_replicas) : replicas;
}

}  // namespace

WritePlan plan_pieces(const ShardedArray& array, const PieceOptions& options) {
  Grid grid = check_grid(array);
  WritePlan plan{.write_shape = std::move(grid.part), .replicas = grid.replicas, .pieces = {}};
  plan.pieces.resize(array.shards.size());
  Shape& part = plan.write_shape;

  const std::int64_t replicas = sharing_replicas(grid.replicas, options);
  if (replicas > 1 && element_count(part) > 0) {
    const auto divisible =
        std::find_if(part.begin(), part.end(), [&](std::int64_t n) { return n % replicas == 0; });
    const std::int64_t bytes =
        element_count(part) / replicas * static_cast<std::int64_t>(dtype_size(array.dtype));
    if (divisible != part.end() && bytes >= options.min_slice_bytes) {
      *divisible /= replicas;
      const auto d = static_cast<std::size_t>(divisible - part.begin());
      for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
        const ArrayShard& shard = array.shards[i];
        if (shard.replica >= replicas) continue;
        plan.pieces[i] = Box{shard.box.origin, part};
        plan.pieces[i]->origin[d] += shard.replica * part[d];
      }
      return plan;
    }
  }
  if (array.shards.empty()) return plan;
  const std::int64_t writer = options.replica_id.value_or(array.shards[0].replica);
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    const ArrayShard& shard = array.shards[i];
    if (shard.replica == writer && (!shard.box.empty() || is_empty(array.shape)))
      plan.pieces[i] = shard.box;
  }
  return plan;
}

}  // namespace cairn::inline v0
