// array_restore.cc -- the boxes of an array being restored, and their memory.
#include <cairn/handlers/array_restore.h>

#include <cairn/array/box.h>
#include <cairn/array/byte_count.h>
#include <cairn/base/observer/observe.h>
#include <cairn/orbax/byte_limiter.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cairn::inline v0::handlers {
namespace {

// The least memory that reading a box takes: all chunks that it touches.
std::int64_t reserved_bytes(const TensorInfo& stored, const Box& box) {
  Shape widened = box.shape;
  for (std::size_t d = 0; d < widened.size() && d < stored.chunk_shape.size(); ++d) {
    const std::int64_t chunk = std::max<std::int64_t>(1, stored.chunk_shape[d]);
    const std::int64_t first = box.origin[d] / chunk * chunk;
    const std::int64_t last = (box.origin[d] + box.shape[d] + chunk - 1) / chunk * chunk;
    widened[d] = std::min(last, std::max(stored.shape[d], first)) - first;
  }
  return element_count(widened) *
         static_cast<std::int64_t>(std::max<std::size_t>(1, stored.element_size));
}

}  // namespace

LocalDevices local_devices(const MultiprocessingOptions& processes) {
  if (!processes.local_devices) return std::nullopt;
  return std::unordered_set<std::int64_t>(processes.local_devices->begin(),
                                          processes.local_devices->end());
}

std::optional<Shape> asked_shape(const ArrayRestoreArgs& args) {
  if (args.global_shape && args.shape && *args.global_shape != *args.shape)
    throw Error(Code::kInvalidArgument, "global_shape " + shape_text(*args.global_shape) +
                                            " and shape " + shape_text(*args.shape) +
                                            " must match");
  return args.global_shape ? args.global_shape : args.shape;
}

Shape shape_for(const TensorInfo& stored, const ArrayRestoreArgs& args) {
  const Shape shape = asked_shape(args).value_or(stored.shape);
  if (shape == stored.shape) return shape;
  if (args.strict)
    throw Error(Code::kInvalidArgument,
                "is stored with shape " + shape_text(stored.shape) + ", but shape " +
                    shape_text(shape) +
                    " was requested; strict = false truncates it or pads it with zeros");
  if (shape.size() != stored.shape.size())
    throw Error(Code::kInvalidArgument, "ranks do not match: stored shape " +
                                            shape_text(stored.shape) + ", requested shape " +
                                            shape_text(shape));
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 0; }))
    throw Error(Code::kInvalidArgument,
                "the requested shape " + shape_text(shape) + " has a negative extent");
  return shape;
}

RestoringArray::RestoringArray(Shape shape, Sharding sharding, DType dtype,
                               const LocalDevices& local) {
  result_.shape = std::move(shape);
  result_.sharding = std::move(sharding);
  result_.dtype = dtype;
  // A sharding on one device names it as a string, which does not show which process owns it.
  const bool all = !local || std::holds_alternative<SingleDeviceSharding>(result_.sharding);
  BoxTable<> numbers;
  for (DeviceBox& device :
       device_boxes(for_rank(result_.sharding, result_.shape.size()), result_.shape)) {
    const auto [number, is_new] = numbers.add(device.box);
    if (is_new) {
      boxes_.push_back(device.box);
      memory_.emplace_back();
    }
    box_of_device_.push_back(number);
    if (!all && !local->contains(device.device_id)) continue;
    memory_[number].wanted.push_back(result_.shards.size());
    result_.shards.push_back({device.device_id, std::move(device.box), device.replica, {}});
  }
}

std::uint64_t RestoringArray::box_bytes(std::size_t box) const {
  return byte_count(boxes_[box].shape, result_.dtype);
}

void RestoringArray::read(std::size_t box, const ParamInfo& info, const TensorInfo& stored,
                          std::vector<LeafRead>& reads) {
  const Box& wanted = boxes_[box];
  const auto inside =
      wanted.empty() ? std::optional<Box>() : intersect(wanted, Box::whole(stored.shape));
  if (inside && info.byte_limiter) info.byte_limiter->check(reserved_bytes(stored, *inside));
  std::byte* bytes = memory(box);
  const std::uint64_t size = box_bytes(box);
  if (size > 0 && (!inside || !(*inside == wanted))) std::memset(bytes, 0, size);
  if (!inside) return;
  const MutableArrayView out = make_view(MutableByteView(bytes, size), result_.dtype, wanted.shape);
  reads.push_back({info.name, &stored, *inside, subview(out, relative_to(*inside, wanted.origin))});
}

std::byte* RestoringArray::memory(std::size_t box) {
  std::shared_ptr<Buffer>& buffer = memory_[box].buffer;
  if (buffer == nullptr)
    buffer = std::make_shared<Buffer>(static_cast<std::size_t>(box_bytes(box)));
  return buffer->data();
}

ShardedArray RestoringArray::take() {
  for (std::size_t box = 0; box < boxes_.size(); ++box) {
    const std::shared_ptr<Buffer>& buffer = memory_[box].buffer;
    for (const std::size_t shard : memory_[box].wanted)
      result_.shards[shard].source = HostMemory{
          make_view(ByteView(buffer->data(), buffer->size()), result_.dtype, boxes_[box].shape),
          buffer};
  }
  return std::move(result_);
}

void report_shard_shapes(std::span<const ParamInfo> infos, std::span<const TensorInfo> stored,
                         std::span<const RestoringArray> arrays) {
  std::int64_t count = 0;
  std::string_view first;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto is_other = [&](const Box& box) { return box.shape != stored[i].shape; };
    const auto boxes = arrays[i].boxes();
    if (std::any_of(boxes.begin(), boxes.end(), is_other) && count++ == 0) first = infos[i].name;
  }
  if (count > 0)
    observe(infos[0].observer, EventLevel::kDebug, "restore.shard_shape_changed",
            {{"leaf", first}, {"leaves", count}});
}

}  // namespace cairn::inline v0::handlers
