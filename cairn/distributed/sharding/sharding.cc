// sharding.cc -- computes the box and the replica number of every device from a sharding and a
// shape, as JAX does.
#include <cairn/array/box.h>
#include <cairn/distributed/sharding/mesh.h>
#include <cairn/distributed/sharding/named_placement.h>
#include <cairn/orbax/sharding.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <tuple>
#include <utility>

namespace cairn::inline v0 {
namespace {

using distributed::NamedPlacement;

std::vector<DeviceBox> named_boxes(const NamedSharding& sharding,
                                   std::span<const std::int64_t> shape) {
  const NamedPlacement placement(sharding, shape);
  std::vector<DeviceBox> boxes;
  boxes.reserve(placement.devices());
  for (std::size_t i = 0; i < placement.devices(); ++i) boxes.push_back(placement.at(i));
  return boxes;
}

// Returns the number in a device's name: the first run of digits.
std::int64_t device_number(const std::string& text) {
  const std::size_t digits = text.find_first_of("0123456789");
  std::int64_t number = 0;
  if (digits == std::string::npos ||
      std::from_chars(text.data() + digits, text.data() + text.size(), number).ec != std::errc())
    throw Error(Code::kInvalidArgument,
                "device '" + text + "' has no number; expected a name like 'cpu:0'");
  return number;
}

bool box_less(const Box& a, const Box& b) {
  return std::tie(a.origin, a.shape) < std::tie(b.origin, b.shape);
}

std::vector<DeviceBox> explicit_boxes(const ExplicitSharding& sharding,
                                      std::span<const std::int64_t> shape) {
  std::vector<DeviceBox> boxes;
  std::vector<std::int64_t> ids;
  for (const auto& part : sharding.parts) {
    with_context([&] { return "the part of device " + std::to_string(part.device_id); },
                 [&] { check_inside(part.box, shape); });
    boxes.push_back({.device_id = part.device_id, .box = part.box});
    ids.push_back(part.device_id);
  }
  distributed::check_unique_ids(ids);
  std::vector<std::size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return box_less(boxes[a].box, boxes[b].box);
  });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (boxes[order[i]].box == boxes[order[i - 1]].box)
      boxes[order[i]].replica = boxes[order[i - 1]].replica + 1;
  return boxes;
}

[[noreturn]] void throw_unknown(const UnknownSharding& sharding) {
  throw Error(Code::kFailedPrecondition,
              "Cairn cannot place an array with a sharding of unknown type: " + sharding.json);
}

}  // namespace

std::vector<DeviceBox> device_boxes(const Sharding& sharding, std::span<const std::int64_t> shape) {
  if (const auto* named = std::get_if<NamedSharding>(&sharding)) return named_boxes(*named, shape);
  if (const auto* single = std::get_if<SingleDeviceSharding>(&sharding))
    return {{.device_id = device_number(single->device),
             .box = Box::whole({shape.begin(), shape.end()})}};
  if (const auto* parts = std::get_if<ExplicitSharding>(&sharding))
    return explicit_boxes(*parts, shape);
  throw_unknown(std::get<UnknownSharding>(sharding));
}

std::size_t device_count(const Sharding& sharding) {
  if (const auto* named = std::get_if<NamedSharding>(&sharding))
    return static_cast<std::size_t>(distributed::check_mesh(named->mesh));
  if (std::holds_alternative<SingleDeviceSharding>(sharding)) return 1;
  if (const auto* parts = std::get_if<ExplicitSharding>(&sharding)) return parts->parts.size();
  throw_unknown(std::get<UnknownSharding>(sharding));
}

Shape shard_shape(const Sharding& sharding, std::span<const std::int64_t> shape) {
  const std::vector<DeviceBox> boxes = device_boxes(sharding, shape);
  if (boxes.empty())
    throw Error(Code::kFailedPrecondition, "a sharding without devices has no shard shape");
  for (const DeviceBox& box : boxes)
    if (box.box.shape != boxes[0].box.shape)
      throw Error(Code::kFailedPrecondition,
                  "the parts differ in shape: " + shape_text(boxes[0].box.shape) + " on device " +
                      std::to_string(boxes[0].device_id) + ", " + shape_text(box.box.shape) +
                      " on device " + std::to_string(box.device_id));
  return boxes[0].box.shape;
}

std::int64_t replica_count(const Sharding& sharding, std::span<const std::int64_t> shape) {
  const std::vector<DeviceBox> boxes = device_boxes(sharding, shape);
  const auto most = std::max_element(
      boxes.begin(), boxes.end(),
      [](const DeviceBox& a, const DeviceBox& b) { return a.replica < b.replica; });
  if (most == boxes.end())
    throw Error(Code::kFailedPrecondition, "a sharding without devices has no replicas");
  const std::int64_t count = most->replica + 1;
  // Every part has equally many replicas if the last replica number occurs as often as the first.
  const auto of = [&](std::int64_t replica) {
    return std::count_if(boxes.begin(), boxes.end(),
                         [&](const DeviceBox& b) { return b.replica == replica; });
  };
  if (of(0) != of(count - 1))
    throw Error(Code::kFailedPrecondition,
                "some parts are on " + std::to_string(count) + " devices, others on fewer");
  return count;
}

bool is_fully_replicated(const Sharding& sharding, std::span<const std::int64_t> shape) {
  const std::vector<DeviceBox> boxes = device_boxes(sharding, shape);
  const Box whole = Box::whole({shape.begin(), shape.end()});
  return !boxes.empty() && std::all_of(boxes.begin(), boxes.end(),
                                       [&](const DeviceBox& b) { return b.box == whole; });
}

}  // namespace cairn::inline v0
