// sharded_array.cc -- arrays in parts: makes them from a host array and copies from them.
#include <cairn/array/box.h>
#include <cairn/orbax/sharding.h>

#include <unordered_set>

namespace cairn::inline v0 {
namespace {

// Removes `hole`, which lies inside `from`, and adds the remaining boxes to `rest`: at most two for
// each dimension.
void subtract(Box from, const Box& hole, std::vector<Box>& rest) {
  for (std::size_t d = 0; d < from.rank(); ++d) {
    const std::int64_t before = hole.origin[d] - from.origin[d];
    const std::int64_t after = from.shape[d] - before - hole.shape[d];
    if (before > 0) {
      rest.push_back(from);
      rest.back().shape[d] = before;
    }
    if (after > 0) {
      rest.push_back(from);
      rest.back().origin[d] = hole.origin[d] + hole.shape[d];
      rest.back().shape[d] = after;
    }
    from.origin[d] = hole.origin[d];
    from.shape[d] = hole.shape[d];
  }
}

// Copies `part` of the array; the shard must hold all of it.
void copy_part(const ArrayShard& shard, const Box& part, const MutableArrayView& out) {
  const Box local = relative_to(part, shard.box.origin);
  if (const auto* memory = std::get_if<HostMemory>(&shard.source)) {
    if (memory->view.shape != shard.box.shape)
      throw Error(Code::kInvalidArgument, "memory shape " + shape_text(memory->view.shape) +
                                              " does not match box " + box_text(shard.box));
    if (memory->view.dtype != out.dtype)
      throw Error(Code::kInvalidArgument,
                  "its memory holds " + std::string(dtype_name(memory->view.dtype)) +
                      ", but the array is " + std::string(dtype_name(out.dtype)));
    return copy_elements(subview(memory->view, local), out);
  }
  std::get<ShardCopy>(shard.source)(local, out);
}

bool has_values(const ArrayShard& shard) {
  return !std::holds_alternative<std::monostate>(shard.source);
}

// Returns the host memory that already holds the whole array and may be shared; null if there is
// none.
const HostMemory* whole_in_memory(const ShardedArray& array) {
  for (const ArrayShard& shard : array.shards) {
    const auto* memory = std::get_if<HostMemory>(&shard.source);
    if (memory != nullptr && memory->owner != nullptr && memory->view.shape == array.shape &&
        memory->view.dtype == array.dtype && memory->view.contiguous())
      return memory;
  }
  return nullptr;
}

ShardedArray spread(const Array& array, Sharding sharding,
                    const std::unordered_set<std::int64_t>* devices) {
  if (array.dtype() == DType::kOpaque)
    throw Error(Code::kInvalidArgument,
                "elements that Cairn does not interpret cannot be on devices");
  const auto owner = std::make_shared<const Array>(array);
  const ArrayView view = owner->view();
  ShardedArray result{
      .shape = array.shape(), .dtype = array.dtype(), .sharding = std::move(sharding)};
  for (DeviceBox& held : device_boxes(result.sharding, result.shape)) {
    if (devices != nullptr && !devices->contains(held.device_id)) continue;
    HostMemory memory{.view = subview(view, held.box), .owner = owner};
    result.shards.push_back({.device_id = held.device_id,
                             .box = std::move(held.box),
                             .replica = held.replica,
                             .source = std::move(memory)});
  }
  return result;
}

}  // namespace

ShardedArray ShardedArray::from_array(const Array& array, Sharding sharding) {
  return spread(array, std::move(sharding), nullptr);
}

ShardedArray ShardedArray::from_array(const Array& array, Sharding sharding,
                                      std::span<const std::int64_t> devices) {
  const std::unordered_set<std::int64_t> wanted(devices.begin(), devices.end());
  return spread(array, std::move(sharding), &wanted);
}

void copy_box(const ShardedArray& array, const Box& box, const MutableArrayView& out) {
  check_inside(box, array.shape);
  if (out.shape != box.shape || out.dtype != array.dtype)
    throw Error(Code::kInvalidArgument, "box " + box_text(box) + " of " +
                                            std::string(dtype_name(array.dtype)) +
                                            " does not fit " + shape_text(out.shape) + " of " +
                                            std::string(dtype_name(out.dtype)));
  if (box.empty()) return;
  std::vector<Box> missing{box};
  for (const ArrayShard& shard : array.shards) {
    if (missing.empty()) break;
    if (!has_values(shard)) continue;
    std::vector<Box> still;
    for (Box& part : missing) {
      const std::optional<Box> here = intersect(part, shard.box);
      if (!here) {
        still.push_back(std::move(part));
        continue;
      }
      with_context([&] { return "the shard on device " + std::to_string(shard.device_id); },
                   [&] { copy_part(shard, *here, subview(out, relative_to(*here, box.origin))); });
      subtract(std::move(part), *here, still);
    }
    missing = std::move(still);
  }
  if (!missing.empty())
    throw Error(Code::kFailedPrecondition,
                box_text(missing[0]) + " of the array " + shape_text(array.shape) +
                    " is not in a shard of this process; copy it on a process that holds it");
}

Array gather_shards(const ShardedArray& array) {
  if (const HostMemory* memory = whole_in_memory(array))
    return {array.dtype, memory->view.element_size, array.shape, memory->owner, memory->view.data};
  Array whole = Array::allocate(array.dtype, array.shape);
  copy_box(array, Box::whole(array.shape), whole.mutable_view());
  return whole;
}

}  // namespace cairn::inline v0
