// sharding.cc -- from a sharding and a shape to the box of every device, with JAX's replica numbers.
#include <cairn/base/box.h>
#include <cairn/sharding.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace cairn {
namespace {

constexpr std::size_t kMaxAxes = 64;                          // of a mesh: it is a NumPy array
constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20U;  // texts from files say how many; the largest machines have a tenth of that

[[noreturn]] void refuse(const std::string& message) { throw Error(Code::kInvalidArgument, message); }

std::string quoted(const std::string& name) { return "'" + name + "'"; }

std::string axis_text(const Mesh& mesh, std::size_t axis) {
  return "mesh axis " + quoted(mesh.axis_names[axis]) + " (" + std::to_string(mesh.shape[axis]) + " devices)";
}

std::int64_t device_count(const Mesh& mesh) {
  std::int64_t count = 1;
  for (std::size_t a = 0; a < mesh.shape.size(); ++a) {
    if (mesh.shape[a] < 1) refuse(axis_text(mesh, a) + ": an axis has at least one device");
    if (mesh.shape[a] > kMaxDevices / count)
      refuse("mesh " + shape_text(mesh.shape) + " has more than " + std::to_string(kMaxDevices) + " devices");
    count *= mesh.shape[a];
  }
  return count;
}

void check_unique_ids(std::vector<std::int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) refuse("device " + std::to_string(*twice) + " is in the sharding twice");
}

using AxisNumbers = std::unordered_map<std::string_view, std::size_t>;

// Throws unless the mesh is sound; returns where each axis is.
AxisNumbers check_mesh(const Mesh& mesh) {
  if (mesh.axis_names.size() != mesh.shape.size())
    refuse("mesh " + shape_text(mesh.shape) + " has " + std::to_string(mesh.axis_names.size()) +
           " axis names; one is needed for each axis");
  if (mesh.shape.size() > kMaxAxes)
    refuse("a mesh of " + std::to_string(mesh.shape.size()) + " axes; at most " + std::to_string(kMaxAxes) + " are possible");
  AxisNumbers axes;
  for (std::size_t a = 0; a < mesh.axis_names.size(); ++a) {
    if (mesh.axis_names[a].empty()) refuse("axis " + std::to_string(a) + " of mesh " + shape_text(mesh.shape) + " has an empty name");
    if (!axes.emplace(mesh.axis_names[a], a).second) refuse("mesh axis " + quoted(mesh.axis_names[a]) + " is there twice");
  }
  const std::int64_t count = device_count(mesh);
  if (!mesh.axis_types.empty() && mesh.axis_types.size() != mesh.shape.size())
    refuse("mesh " + shape_text(mesh.shape) + " has " + std::to_string(mesh.axis_types.size()) +
           " axis types; one is needed for each axis, or none");
  if (mesh.device_ids.empty()) return axes;
  if (static_cast<std::int64_t>(mesh.device_ids.size()) != count)
    refuse("mesh " + shape_text(mesh.shape) + " has " + std::to_string(mesh.device_ids.size()) + " device ids; " + std::to_string(count) +
           " are needed");
  check_unique_ids(mesh.device_ids);
  return axes;
}

// How one mesh axis moves along the array: `weight` shards of dimension `dim` for each step.
struct AxisUse {
  std::size_t dim = 0;
  std::int64_t weight = 0;  // 0: the axis splits nothing
};

// Throws unless the spec names each axis at most once and no others; returns what each axis does.
std::vector<AxisUse> check_spec(const NamedSharding& sharding) {
  const AxisNumbers axes = check_mesh(sharding.mesh);
  std::vector<AxisUse> uses(sharding.mesh.shape.size());
  for (std::size_t d = 0; d < sharding.spec.size(); ++d) {
    const std::vector<std::string>& names = sharding.spec[d];
    std::int64_t weight = 1;
    for (std::size_t i = names.size(); i-- > 0;) {
      const auto axis = axes.find(names[i]);
      if (axis == axes.end())
        refuse("the partition spec splits dimension " + std::to_string(d) + " by " + quoted(names[i]) + ", which is no axis of the mesh");
      AxisUse& use = uses[axis->second];
      if (use.weight != 0)
        refuse("the partition spec names mesh axis " + quoted(names[i]) + " twice; an axis splits at most one dimension");
      use = {.dim = d, .weight = weight};
      weight *= sharding.mesh.shape[axis->second];
    }
  }
  return uses;
}

void check_placeable(const Mesh& mesh) {
  for (std::size_t a = 0; a < mesh.axis_types.size(); ++a)
    if (mesh.axis_types[a] == AxisType::kManual && mesh.shape[a] > 1)
      throw Error(Code::kUnimplemented, axis_text(mesh, a) + " is Manual: such a sharding does not say who holds what");
}

// Into how many shards each dimension is cut.
Shape shards_per_dim(const NamedSharding& sharding, const std::vector<AxisUse>& uses, std::span<const std::int64_t> shape) {
  if (sharding.spec.size() > shape.size())
    refuse("the partition spec has " + std::to_string(sharding.spec.size()) + " entries, but the array " + shape_text(shape) +
           " has rank " + std::to_string(shape.size()));
  Shape shards(shape.size(), 1);
  for (std::size_t a = 0; a < uses.size(); ++a)
    if (uses[a].weight != 0) shards[uses[a].dim] *= sharding.mesh.shape[a];
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] % shards[d] == 0) continue;
    std::string axes;
    for (const std::string& name : sharding.spec[d]) axes += (axes.empty() ? "" : ", ") + quoted(name);
    refuse("dimension " + std::to_string(d) + " of " + shape_text(shape) + " has " + std::to_string(shape[d]) +
           " elements, which mesh axes " + axes + " cannot cut into " + std::to_string(shards[d]) + " equal parts");
  }
  return shards;
}

std::vector<DeviceBox> named_boxes(const NamedSharding& sharding, std::span<const std::int64_t> shape) {
  const Mesh& mesh = sharding.mesh;
  const std::vector<AxisUse> uses = check_spec(sharding);
  check_placeable(mesh);
  const Shape shards = shards_per_dim(sharding, uses, shape);
  Shape extent(shape.begin(), shape.end());
  std::int64_t distinct = 1;
  std::vector<std::int64_t> stride(shape.size(), 0);  // in the numbering of distinct boxes
  for (std::size_t d = 0; d < shape.size(); ++d) {
    extent[d] /= shards[d];
    if (extent[d] == 0) continue;  // all the empty parts of a dimension are one and the same, as in JAX
    stride[d] = distinct;
    distinct *= shards[d];
  }
  std::vector<std::int64_t> replicas(static_cast<std::size_t>(distinct), 0);
  std::vector<DeviceBox> boxes(static_cast<std::size_t>(device_count(mesh)));
  std::vector<std::int64_t> at(mesh.shape.size(), 0);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    std::vector<std::int64_t> origin(shape.size(), 0);
    for (std::size_t a = 0; a < at.size(); ++a)
      if (uses[a].weight != 0) origin[uses[a].dim] += at[a] * uses[a].weight;
    std::int64_t which = 0;
    for (std::size_t d = 0; d < origin.size(); ++d) {
      which += origin[d] * stride[d];
      origin[d] *= extent[d];
    }
    boxes[i] = {.device_id = mesh.device_ids.empty() ? static_cast<std::int64_t>(i) : mesh.device_ids[i],
                .box = {std::move(origin), extent},
                .replica = replicas[static_cast<std::size_t>(which)]++};
    for (std::size_t a = at.size(); a-- > 0;) {  // the next place in C order
      if (++at[a] < mesh.shape[a]) break;
      at[a] = 0;
    }
  }
  return boxes;
}

// The number in a device's name: the first run of digits.
std::int64_t device_number(const std::string& text) {
  const std::size_t digits = text.find_first_of("0123456789");
  std::int64_t number = 0;
  if (digits == std::string::npos || std::from_chars(text.data() + digits, text.data() + text.size(), number).ec != std::errc())
    refuse("device " + quoted(text) + " has no number; expected a name like 'cpu:0'");
  return number;
}

bool box_less(const Box& a, const Box& b) { return std::tie(a.origin, a.shape) < std::tie(b.origin, b.shape); }

std::vector<DeviceBox> explicit_boxes(const ExplicitSharding& sharding, std::span<const std::int64_t> shape) {
  std::vector<DeviceBox> boxes;
  std::vector<std::int64_t> ids;
  for (const auto& part : sharding.parts) {
    in([&] { return "the part of device " + std::to_string(part.device_id); }, [&] { check_inside(part.box, shape); });
    boxes.push_back({.device_id = part.device_id, .box = part.box});
    ids.push_back(part.device_id);
  }
  check_unique_ids(std::move(ids));
  std::vector<std::size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return box_less(boxes[a].box, boxes[b].box); });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (boxes[order[i]].box == boxes[order[i - 1]].box) boxes[order[i]].replica = boxes[order[i - 1]].replica + 1;
  return boxes;
}

}  // namespace

Mesh make_mesh(Shape shape, std::vector<std::string> axis_names, std::int64_t first_device) {
  Mesh mesh{.shape = std::move(shape), .axis_names = std::move(axis_names), .axis_types = {}, .device_ids = {}};
  check_mesh(mesh);
  mesh.axis_types.assign(mesh.shape.size(), AxisType::kAuto);
  mesh.device_ids.resize(static_cast<std::size_t>(device_count(mesh)));
  std::iota(mesh.device_ids.begin(), mesh.device_ids.end(), first_device);
  return mesh;
}

void check_sharding(const NamedSharding& sharding) { check_spec(sharding); }

std::vector<DeviceBox> device_boxes(const Sharding& sharding, std::span<const std::int64_t> shape) {
  if (const auto* named = std::get_if<NamedSharding>(&sharding)) return named_boxes(*named, shape);
  if (const auto* single = std::get_if<SingleDeviceSharding>(&sharding))
    return {{.device_id = device_number(single->device), .box = Box::whole({shape.begin(), shape.end()})}};
  if (const auto* parts = std::get_if<ExplicitSharding>(&sharding)) return explicit_boxes(*parts, shape);
  throw Error(Code::kFailedPrecondition,
              "a sharding of a type that Cairn does not know places nothing: " + std::get<UnknownSharding>(sharding).json);
}

Shape shard_shape(const Sharding& sharding, std::span<const std::int64_t> shape) {
  const std::vector<DeviceBox> boxes = device_boxes(sharding, shape);
  if (boxes.empty()) throw Error(Code::kFailedPrecondition, "a sharding over no device has no shard shape");
  for (const DeviceBox& box : boxes)
    if (box.box.shape != boxes[0].box.shape)
      throw Error(Code::kFailedPrecondition, "the parts are not of one shape: " + shape_text(boxes[0].box.shape) + " on device " +
                                                 std::to_string(boxes[0].device_id) + ", " + shape_text(box.box.shape) + " on device " +
                                                 std::to_string(box.device_id));
  return boxes[0].box.shape;
}

std::int64_t replica_count(const Sharding& sharding, std::span<const std::int64_t> shape) {
  const std::vector<DeviceBox> boxes = device_boxes(sharding, shape);
  const auto most =
      std::max_element(boxes.begin(), boxes.end(), [](const DeviceBox& a, const DeviceBox& b) { return a.replica < b.replica; });
  if (most == boxes.end()) throw Error(Code::kFailedPrecondition, "a sharding over no device has no replicas");
  const std::int64_t count = most->replica + 1;
  // Equally many everywhere, if the first replicas are as many as the last ones.
  const auto of = [&](std::int64_t replica) {
    return std::count_if(boxes.begin(), boxes.end(), [&](const DeviceBox& b) { return b.replica == replica; });
  };
  if (of(0) != of(count - 1))
    throw Error(Code::kFailedPrecondition, "some parts are on " + std::to_string(count) + " devices, others on fewer");
  return count;
}

bool is_fully_replicated(const Sharding& sharding, std::span<const std::int64_t> shape) {
  const std::vector<DeviceBox> boxes = device_boxes(sharding, shape);
  const Box whole = Box::whole({shape.begin(), shape.end()});
  return !boxes.empty() && std::all_of(boxes.begin(), boxes.end(), [&](const DeviceBox& b) { return b.box == whole; });
}

}  // namespace cairn
